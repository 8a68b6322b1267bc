/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tls_server.h - TLS (RFC 9289) between the simulated network and the server, on some of its
 * addresses: there no call may come in clear but the probe for TLS, and none over a session that
 * the client had to refuse. The client's end is the engine's tls.c and tls_session.c on gnutls.c.
 */
#pragma once

#include "network.h"

/* One in so many, as in struct server_terms. */
struct tls_faults {
	uint32_t paths; /* a bit for each address that is over TLS; 0: there is no TLS */
	bool mutual;
	uint64_t window;    /* network_terms' */
	uint64_t worn;	    /* records that a key serves for; 0: as many as in life */
	uint64_t turn_in;   /* a restart or probe: no STARTTLS, or wrong certificates for a while */
	uint64_t shake_in;  /* a handshake hangs, or is cut */
	uint64_t forge_in;  /* a byte of a record is another when it arrives */
	uint64_t end_in;    /* the connection ends within a record, or by a close_notify */
	uint64_t update_in; /* a ticket, or other keys, before a reply */
};

/* Nothing fails yet; tls_server_fail() follows. */
void tls_server_begin(const struct tls_faults *faults);
void tls_server_fail(const struct tls_faults *faults);
void tls_server_heal(void);
void tls_server_restart(void);

/* Of a key's records, in life, each of the simulation's counts so many times. */
uint64_t tls_record_weight(void);

/* In the place of the server's own, and of network_send(). */
extern const struct network_server tls_network;
void tls_server_send(struct link_end *end, const void *bytes, size_t length);
