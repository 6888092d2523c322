# SPDX-License-Identifier: Apache-2.0
"""What an agent writes for the slots of shares: each change of a record and of a CDI file, in the order in which they were made.

    files = SlotFiles(state, cdi)   its folders, which are made
    files.log                       [(time, "record" or "cdi", slot, what the file says)]; None: it was removed; {}: it had gone before
                                    it was read
    files.end()                     when all changes so far are in the log

The kernel tells of each change (inotify(7)), so that none is missed, however soon another follows.
"""

import ctypes
import json
import os
import re
import struct
import threading
import time

MOVED_TO, DELETE, IGNORED = 0x80, 0x200, 0x8000
EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
QUEUE_BYTES = 65536
NAMES = {"record": re.compile(r"(share\.\d+)\.json"), "cdi": re.compile(r"(share\.\d+)\.gpu\.cleave\.dev-nvidia-slot\.json")}
libc = ctypes.CDLL(None, use_errno=True)


class SlotFiles:
    def __init__(self, state, cdi):
        self.log, self.watched = [], {}
        self.fd = checked(libc.inotify_init1(os.O_CLOEXEC))
        for kind, folder in (("record", state / "slots"), ("cdi", cdi)):
            folder.mkdir(parents=True)
            self.watched[checked(libc.inotify_add_watch(self.fd, bytes(folder), MOVED_TO | DELETE))] = kind, folder
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        while self.watched:
            data = os.read(self.fd, QUEUE_BYTES)
            while data:
                watch, mask, _, length = EVENT.unpack_from(data)
                name, data = data[EVENT.size :][:length].rstrip(b"\0").decode(), data[EVENT.size + length :]
                if mask & IGNORED:
                    del self.watched[watch]
                else:
                    self.note(*self.watched[watch], name, mask & DELETE)

    def note(self, kind, folder, name, is_gone):
        """Drafts have other names."""
        if slot := NAMES[kind].fullmatch(name):
            self.log.append((time.time(), kind, slot[1], None if is_gone else said(folder / name)))

    def end(self):
        for watch in list(self.watched):
            libc.inotify_rm_watch(self.fd, watch)
        self.thread.join()
        os.close(self.fd)


def said(path):
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return {}


def checked(number):
    if number < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return number
