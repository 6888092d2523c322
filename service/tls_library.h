/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * libgnutls, which libmicrohttpd calls for TLS, is loaded by the processes that serve TLS and by no
 * other: with the eight libraries that it needs it would be half of the memory of a process that
 * does not. This module defines the functions of libgnutls that libmicrohttpd and http_front.c name,
 * and each calls the function of the loaded library. The program says in its note .note.dlopen that it may load
 * it, so that whoever packs the program finds out.
 */

/* Loads the library, once; call it before MHD_start_daemon with MHD_USE_TLS, and before files can no
 * longer be opened. ERR_UNAVAILABLE: it is not installed, or lacks a function. */
int tls_library_load(struct err *e) MUST_CHECK;
