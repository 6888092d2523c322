/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A small PKI in a folder of its own, made anew for each test: ca.crt, other-ca.crt,
 * server.{crt,key} for 127.0.0.1 and api.cleave.test, client.{crt,key}; both certificates are the
 * first authority's.
 */
struct pki;

struct pki *pki_new(void);
/* Path of a file in the folder; the caller frees. */
char *pki_path(const struct pki *p, const char *name);
/* Removes the folder with all that lies in it. NULL allowed; returns NULL. */
struct pki *pki_free(struct pki *p);
