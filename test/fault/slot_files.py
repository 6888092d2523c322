# SPDX-License-Identifier: Apache-2.0
"""What an agent writes for the slots of shares: each change of a record and of a CDI file, in the order in which they were made.

    files = SlotFiles(state, cdi)   its folders, which are made
    files.log                       [(time, "record" or "cdi", slot, what the file says)]; None: it was removed; UNREAD: it had changed
                                    again before it was read
    files.end()                     when all changes so far are in the log

The kernel tells of each change (inotify(7)), so that none is missed, however soon another follows.
"""

import ctypes
import json
import os
import re
import select
import struct
import threading
import time

MOVED_TO, DELETE, IGNORED = 0x80, 0x200, 0x8000
EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
QUEUE_BYTES = 65536
NAMES = {"record": re.compile(r"(share\.\d+)\.json"), "cdi": re.compile(r"(share\.\d+)\.gpu\.cleave\.dev-nvidia-slot\.json")}
UNREAD = {}
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
        batch = self.read()
        while self.watched or batch:
            said = {file: said_by(file) for file in {file for *_, file, _ in batch}}
            later = self.read() if self.has_more() else []
            # A file that has changed since was read too late for what it said before.
            said |= {file: UNREAD for *_, file, _ in later}
            for i, (kind, slot, file, is_gone) in enumerate(batch):
                is_last = all(file != other for *_, other, _ in batch[i + 1 :])
                self.log.append((time.time(), kind, slot, None if is_gone else said[file] if is_last else UNREAD))
            batch = later or (self.read() if self.watched else [])

    def has_more(self):
        return bool(select.select([self.fd], [], [], 0)[0])

    def read(self):
        """The next changes: (kind, slot, file, is it gone). Drafts have other names."""
        data, changes = os.read(self.fd, QUEUE_BYTES), []
        while data:
            watch, mask, _, length = EVENT.unpack_from(data)
            name, data = data[EVENT.size :][:length].rstrip(b"\0").decode(), data[EVENT.size + length :]
            if mask & IGNORED:
                del self.watched[watch]
                continue
            kind, folder = self.watched[watch]
            if slot := NAMES[kind].fullmatch(name):
                changes.append((kind, slot[1], folder / name, bool(mask & DELETE)))
        return changes

    def end(self):
        for watch in list(self.watched):
            libc.inotify_rm_watch(self.fd, watch)
        self.thread.join()
        os.close(self.fd)


def said_by(file):
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        return UNREAD


def checked(number):
    if number < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return number
