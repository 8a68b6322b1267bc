/* SPDX-License-Identifier: GPL-2.0-only */
/* main.c - fuzz DECODER [OPTION...] [FOLDER...]: libFuzzer, on the decoder of that name. */
#include "fuzz.h"

#include <string.h>

static const struct decoder {
	const char *name;
	void (*read)(struct input *input);
} decoders[] = {
	{"environment", fuzz_environment},
	{"message", fuzz_message},
	{"nfs3", fuzz_nfs3},
	{"nfs4", fuzz_nfs4},
	{"pool", fuzz_pool},
	{"record", fuzz_record},
	{"rpcrdma", fuzz_rpcrdma},
#ifdef HAVE_TLS
	{"krb5_token", fuzz_krb5_token},
	{"rpcsec_gss", fuzz_rpcsec_gss},
	{"tls", fuzz_tls},
#endif
};
static const struct decoder *chosen;

/* libFuzzer's entries. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes the decoder's name out of the arguments; the processes that libFuzzer starts inherit it. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *given = getenv("FUZZ_DECODER"), *name = given ?: *argc > 1 ? (*argv)[1] : "";

	for (size_t i = 0; i < ARRAY_SIZE(decoders); i++)
		if (!strcmp(decoders[i].name, name))
			chosen = &decoders[i];
	if (!chosen) {
		fprintf(stderr, "fuzz: no decoder '%s': name one of\n", name);
		for (size_t i = 0; i < ARRAY_SIZE(decoders); i++)
			fprintf(stderr, "  %s\n", decoders[i].name);
		exit(2);
	}
	if (given)
		return 0;
	setenv("FUZZ_DECODER", name, 1);
	(*argv)[1] = (*argv)[0];
	++*argv;
	--*argc;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, data + size};

	chosen->read(&input);
	return 0;
}
