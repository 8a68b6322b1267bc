/* SPDX-License-Identifier: GPL-2.0-only */
/* arguments.c - the arguments of a URL: nfs(5)'s and libnfs's words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "grammar.h"

/* Above what servers offer; iodepth times this much still fits into memory. */
#define SIZE_MOST (64U << 20)
#define ID_MOST	  (UINT32_MAX - 1) /* (uid_t)-1 says "no user" */

struct reading;

struct argument {
	const char *word;
	int (*read)(struct reading *reading);
	bool bare; /* may stand without a value */

	/* What is read by read_number(), read_size() and read_text(): */
	enum path_arg bit;
	size_t field; /* offset in struct path_args */
	uint32_t least, most;
	const char *unit;
};

/* One list of arguments, and the argument in it that is being read. */
struct reading {
	struct scanner *list;
	struct path_args *args;
	uint64_t words; /* bit i: known[i] was given */

	const struct argument *argument;
	const char *at;	   /* where its value is, or the word where it has none */
	const char *value; /* decoded; NULL where there is none */
};

static unsigned int *number_field(const struct reading *reading)
{
	return (unsigned int *)((char *)reading->args + reading->argument->field);
}

/* Two words may name one thing (nfsport and port), but must then agree. */
static int set_number(struct reading *reading, uint32_t number)
{
	const struct argument *argument = reading->argument;
	unsigned int *field = number_field(reading);

	if (reading->args->set & argument->bit && *field != number)
		return scanner_refuse(reading->list, reading->at,
				      "%s=%u contradicts the %u given before it: give one",
				      argument->word, number, *field);
	*field = number;
	reading->args->set |= argument->bit;
	return 0;
}

static int read_number(struct reading *reading)
{
	const struct argument *argument = reading->argument;
	struct scanner value = scanner_over(reading->value, NULL);
	uint32_t number;

	if (!scanner_number(&value, argument->most, &number) || number < argument->least ||
	    !scanner_done(&value))
		return scanner_refuse(reading->list, reading->at, "%s is a number from %u to %u%s",
				      argument->word, argument->least, argument->most,
				      argument->unit ? argument->unit : "");
	return set_number(reading, number);
}

static unsigned int take_unit(struct scanner *value)
{
	if (scanner_take(value, 'k') || scanner_take(value, 'K'))
		return 10;
	if (scanner_take(value, 'm') || scanner_take(value, 'M'))
		return 20;
	return 0;
}

static int read_size(struct reading *reading)
{
	const struct argument *argument = reading->argument;
	struct scanner value = scanner_over(reading->value, NULL);
	uint32_t number;
	unsigned int shift;
	bool read = scanner_number(&value, argument->most, &number);

	shift = take_unit(&value);
	if (!read || number < argument->least || number > argument->most >> shift ||
	    !scanner_done(&value))
		return scanner_refuse(reading->list, reading->at,
				      "%s is a size from %u to %um: bytes, or a number with k or m",
				      argument->word, argument->least, argument->most >> 20);
	return set_number(reading, number << shift);
}

static int set_soft(struct reading *reading, bool by_one)
{
	struct path_args *args = reading->args;
	bool one = !reading->value || strcmp(reading->value, "1") == 0;
	bool soft = one == by_one;

	if (!one && strcmp(reading->value, "0") != 0)
		return scanner_refuse(reading->list, reading->at, "%s stands alone, or is =1 or =0",
				      reading->argument->word);
	if (args->set & ARG_SOFT && args->soft != soft)
		return scanner_refuse(reading->list, reading->at,
				      "hard and soft contradict each other: give one");
	args->soft = soft;
	args->set |= ARG_SOFT;
	return 0;
}

static int read_soft(struct reading *reading)
{
	return set_soft(reading, true);
}

static int read_hard(struct reading *reading)
{
	return set_soft(reading, false);
}

/* What is RDMA's alone would silently be for nothing with proto=tcp. */
static int check_rdma(const struct reading *reading)
{
	const struct path_args *args = reading->args;

	if (!(args->set & ARG_PROTO) || args->proto == PROTO_RDMA)
		return 0;
	if (args->set & ARG_RDMAPORT)
		return scanner_refuse(reading->list, reading->at,
				      "rdmaport goes with proto=rdma; TCP's port is nfsport");
	return 0;
}

static int read_rdmaport(struct reading *reading)
{
	int err = read_number(reading);

	return err ? err : check_rdma(reading);
}

static int refuse_namespace(struct reading *reading)
{
	return scanner_refuse(reading->list, reading->at,
			      "namespace is gone: names always go over TCP; leave it out");
}

/* URLs that were written for libnfs are to be used as they are. */
static int ignore(struct reading *reading)
{
	reading->args->set |= reading->argument->bit;
	return 0;
}

static int read_proto(struct reading *reading)
{
	static const struct {
		const char *word;
		enum path_proto proto;
		int family;
	} protos[] = {
		{"tcp", PROTO_TCP, AF_UNSPEC},
		{"tcp6", PROTO_TCP, AF_INET6},
		{"rdma", PROTO_RDMA, AF_UNSPEC},
		{"rdma6", PROTO_RDMA, AF_INET6},
	};

	for (size_t i = 0; i < sizeof(protos) / sizeof(*protos); i++) {
		if (strcmp(reading->value, protos[i].word) != 0)
			continue;
		reading->args->proto = protos[i].proto;
		reading->args->family = protos[i].family;
		reading->args->set |= ARG_PROTO;
		return check_rdma(reading);
	}
	return scanner_refuse(reading->list, reading->at, "proto is tcp, tcp6, rdma or rdma6");
}

static int set_version(struct reading *reading, unsigned int minor)
{
	struct path_args *args = reading->args;

	if (args->set & ARG_VERSION && args->minor != minor)
		return scanner_refuse(reading->list, reading->at,
				      "%s=%s contradicts the version given before it: give one",
				      reading->argument->word, reading->value);
	args->minor = minor;
	args->set |= ARG_VERSION;
	return 0;
}

static int read_version(struct reading *reading)
{
	static const struct {
		const char *word;
		unsigned int minor;
	} versions[] = {{"3", 0}, {"4.1", 1}, {"4.2", 2}};

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++)
		if (strcmp(reading->value, versions[i].word) == 0)
			return set_version(reading, versions[i].minor);
	if (strcmp(reading->value, "4") == 0 || strcmp(reading->value, "4.0") == 0)
		return scanner_refuse(reading->list, reading->at,
				      "%s=%s: NFSv4.0 has no sessions, which the engine's calls "
				      "need: use 4.1, or mount the export and name the directory",
				      reading->argument->word, reading->value);
	return scanner_refuse(reading->list, reading->at, "%s is 3, 4.1 or 4.2",
			      reading->argument->word);
}

static int read_localaddr(struct reading *reading)
{
	struct scanner value = scanner_over(reading->value, NULL);
	struct path_args *args = reading->args;

	do {
		struct span address = scanner_until(&value, "+");

		if (!address_is_valid(address))
			return scanner_refuse(reading->list, reading->at,
					      "'%s' is not an address: localaddr is one IPv4 or "
					      "IPv6 address, or several joined by '+'",
					      QUOTE(address));
	} while (scanner_take(&value, '+'));
	args->localaddr = strdup(reading->value);
	if (!args->localaddr)
		return pool_no_memory(reading->list->err);
	args->set |= ARG_LOCALADDR;
	return 0;
}

const char *pool_xprtsec_word(enum path_xprtsec xprtsec)
{
	static const char *const words[] = {
		[XPRTSEC_NONE] = "none",
		[XPRTSEC_TLS] = "tls",
		[XPRTSEC_MTLS] = "mtls",
	};

	return words[xprtsec];
}

static int read_xprtsec(struct reading *reading)
{
	for (enum path_xprtsec one = XPRTSEC_NONE; one <= XPRTSEC_MTLS; one++) {
		if (strcmp(reading->value, pool_xprtsec_word(one)) != 0)
			continue;
		reading->args->xprtsec = one;
		reading->args->set |= ARG_XPRTSEC;
		return 0;
	}
	return scanner_refuse(reading->list, reading->at, "xprtsec is none, tls or mtls");
}

const char *pool_sec_word(enum path_sec sec)
{
	static const char *const words[] = {
		[SEC_SYS] = "sys",
		[SEC_KRB5] = "krb5",
		[SEC_KRB5I] = "krb5i",
		[SEC_KRB5P] = "krb5p",
	};

	return words[sec];
}

static int read_sec(struct reading *reading)
{
	for (enum path_sec one = SEC_SYS; one <= SEC_KRB5P; one++) {
		if (strcmp(reading->value, pool_sec_word(one)) != 0)
			continue;
		reading->args->sec = one;
		reading->args->set |= ARG_SEC;
		return 0;
	}
	return scanner_refuse(reading->list, reading->at, "sec is sys, krb5, krb5i or krb5p");
}

static int read_text(struct reading *reading)
{
	const struct argument *argument = reading->argument;
	char **field = (char **)((char *)reading->args + argument->field);

	if (!*reading->value)
		return scanner_refuse(reading->list, reading->at, "%s needs a value: %s=...",
				      argument->word, argument->word);
	*field = strdup(reading->value);
	if (!*field)
		return pool_no_memory(reading->list->err);
	reading->args->set |= argument->bit;
	return 0;
}

#define NUMBER(field_, least_, most_) \
	.field = offsetof(struct path_args, field_), .least = (least_), .most = (most_)
#define PORT(field_)	 NUMBER(field_, 1, PORT_MAX)
#define SIZE(field_)	 NUMBER(field_, 1, SIZE_MOST)
#define TEXT(field_)	 .read = read_text, .field = offsetof(struct path_args, field_)
#define ID(field_)	 NUMBER(field_, 0, ID_MOST)
#define IGNORED(number_) .read = ignore, .bare = true, .bit = (enum path_arg)(1 << (16 + (number_)))

static const struct argument known[] = {
	{"nfsport", .read = read_number, .bit = ARG_PORT, PORT(port)},
	{"port", .read = read_number, .bit = ARG_PORT, PORT(port)},
	{"rdmaport", .read = read_rdmaport, .bit = ARG_RDMAPORT, PORT(rdmaport)},
	{"mountport", .read = read_number, .bit = ARG_MOUNTPORT, PORT(mountport)},
	{"version", .read = read_version},
	{"vers", .read = read_version},
	{"nfsvers", .read = read_version},
	{"proto", .read = read_proto},
	{"rsize", .read = read_size, .bit = ARG_RSIZE, SIZE(rsize)},
	{"wsize", .read = read_size, .bit = ARG_WSIZE, SIZE(wsize)},
	{"timeo", .read = read_number, .bit = ARG_TIMEO, NUMBER(timeo, 1, 6000),
	 .unit = " (tenths of a second)"},
	{"retrans", .read = read_number, .bit = ARG_RETRANS, NUMBER(retrans, 0, 1000)},
	{"hard", .read = read_hard, .bare = true},
	{"soft", .read = read_soft, .bare = true},
	{"localaddr", .read = read_localaddr},
	{"uid", .read = read_number, .bit = ARG_UID, ID(uid)},
	{"gid", .read = read_number, .bit = ARG_GID, ID(gid)},
	{"xprtsec", .read = read_xprtsec},
	{"tls_ca", .bit = ARG_TLS_CA, TEXT(tls_ca)},
	{"tls_cert", .bit = ARG_TLS_CERT, TEXT(tls_cert)},
	{"tls_key", .bit = ARG_TLS_KEY, TEXT(tls_key)},
	{"tls_name", .bit = ARG_TLS_NAME, TEXT(tls_name)},
	{"sec", .read = read_sec},
	{"principal", .bit = ARG_PRINCIPAL, TEXT(principal)},
	{"keytab", .bit = ARG_KEYTAB, TEXT(keytab)},
	{"ccache", .bit = ARG_CCACHE, TEXT(ccache)},
	{"server_principal", .bit = ARG_SERVER_PRINCIPAL, TEXT(server_principal)},
	{"auto-traverse-mounts", IGNORED(0)},
	{"autoreconnect", IGNORED(1)},
	{"debug", IGNORED(2)},
	{"dircache", IGNORED(3)},
	{"if", IGNORED(4)},
	{"readahead", IGNORED(5)},
	{"tcp-syncnt", IGNORED(6)},
	{"xid", IGNORED(7)},
	{"namespace", .read = refuse_namespace}, /* behind these: it is not to be proposed either */
};

#define KNOWN (sizeof(known) / sizeof(*known))
_Static_assert(KNOWN <= 64, "bits of words");

const char gss_context_gone[] =
	"gss_context=job is gone since 0.7.0: each connection has a context "
	"of its own, so leave it out";

/* Options of the engine that are taken for arguments of a path: nconnect is one of mount(8). */
static const char *const of_jobs[] = {"nconnect", "spread", "stripe_size", "trunking",
				      "failover", "ktls",   "gss_context"};

static int refuse_unknown(const struct scanner *list, struct span word)
{
	char words[208] = "";
	struct scanner rest = *list;
	bool given = scanner_take(&rest, '=');
	struct span value = scanner_until(&rest, "&,");

	if (span_is(word, "gss_context") && given && span_is(value, "job"))
		return scanner_refuse(list, word.at, "%s", gss_context_gone);
	for (size_t i = 0; i < sizeof(of_jobs) / sizeof(*of_jobs); i++)
		if (span_is(word, of_jobs[i]))
			return scanner_refuse(list, word.at, "a job option: --%s=%s", of_jobs[i],
					      given ? QUOTE(value) : "VALUE");
	for (size_t i = 0; i < KNOWN && !(known[i].bit & ARG_IGNORED); i++)
		snprintf(words + strlen(words), sizeof(words) - strlen(words), " %s",
			 known[i].word);
	return scanner_refuse(list, word.at, "unknown argument '%s'; known:%s", QUOTE(word), words);
}

/* Finds the argument of that name and notes that it was given. */
static int find_argument(struct reading *reading, struct span word)
{
	size_t i = 0;

	while (i < KNOWN && !span_is(word, known[i].word))
		i++;
	if (i == KNOWN)
		return refuse_unknown(reading->list, word);
	if (reading->words & 1ULL << i)
		return scanner_refuse(reading->list, word.at, "%s is given twice", known[i].word);
	reading->words |= 1ULL << i;
	reading->argument = &known[i];
	return 0;
}

static int read_value(struct reading *reading)
{
	struct scanner *list = reading->list;
	char *value;
	int err;

	if (!scanner_take(list, '=')) {
		reading->value = NULL;
		if (reading->argument->bare)
			return reading->argument->read(reading);
		return scanner_refuse(list, reading->at, "%s needs a value: %s=...",
				      reading->argument->word, reading->argument->word);
	}
	reading->at = list->at;
	err = scanner_decode(list, scanner_until(list, "&,"), &value);
	if (err)
		return err;
	reading->value = value;
	err = reading->argument->read(reading);
	free(value);
	return err;
}

int arguments_read(struct scanner *list, struct path_args *args)
{
	struct reading reading = {.list = list, .args = args};

	do {
		struct span word = scanner_until(list, "=&,");
		int err;

		if (!span_length(word))
			return scanner_refuse(list, word.at,
					      "an argument is missing here: ARG=VALUE");
		reading.at = word.at;
		err = find_argument(&reading, word);
		if (!err)
			err = read_value(&reading);
		if (err)
			return err;
	} while (scanner_take(list, '&'));
	return 0;
}

void pool_ignored(const struct pool *pool, char *words)
{
	unsigned int set = 0;
	size_t length = 0;

	for (unsigned int i = 0; i < pool->count; i++)
		set |= pool->paths[i].args.set;
	words[0] = '\0';
	for (size_t i = 0; i < KNOWN; i++)
		if (known[i].bit & set & ARG_IGNORED)
			length += (size_t)snprintf(words + length, POOL_IGNORED_MAX - length,
						   "%s%s", length ? ", " : "", known[i].word);
}
