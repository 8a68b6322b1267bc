/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/names_walk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nfs/meta.h"

/* Splits the first component off, without any "."; NULL: there is none. */
static char *component(char **rest)
{
	char *name;

	do
		name = strsep(rest, "/");
	while (name && (!*name || !strcmp(name, ".")));
	return name;
}

int names_walk(struct names *names, names_descend *descend, struct nfs_handle *at, const char *path,
	       bool make, char **last)
{
	char *rest = *last = names->room, *next;
	int error = 0;

	if ((size_t)snprintf(names->room, sizeof(names->room), "%s", path) >= sizeof(names->room))
		return names_fail(names, -ENAMETOOLONG, "the name is too long");
	*last = component(&rest);
	while (*last && (next = component(&rest))) {
		error = descend(names, at, *last, make);
		if (error)
			break;
		*last = next;
	}
	return error;
}

int names_walk_all(struct names *names, names_descend *descend, struct nfs_handle *at,
		   const char *path, bool make, char **last)
{
	int error = names_walk(names, descend, at, path, make, last);

	return error || !*last ? error : descend(names, at, *last, make);
}

int names_find(struct names *names, names_descend *descend, const char *name, bool make,
	       struct nfs_handle *directory, const char **last)
{
	char *found;
	int error;

	*directory = names->export;
	error = names_walk(names, descend, directory, name, make, &found);
	if (!error && !found)
		return names_fail(names, -EINVAL, "no name");
	*last = found;
	return error;
}

int names_check_file(struct names *names, uint32_t type)
{
	if (type == META_TYPE_FILE)
		return 0;
	return names_fail(names, type == META_TYPE_DIRECTORY ? -EISDIR : -EINVAL,
			  type == META_TYPE_SYMLINK
				  ? "a symbolic link, which is not followed over NFS: name what it "
				    "leads to"
				  : "not a regular file");
}
