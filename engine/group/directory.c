/* SPDX-License-Identifier: GPL-2.0-only */
#include "group/path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "util.h"

static int open_beneath(int directory, const char *name, int flags, uint64_t resolve)
{
	struct open_how how = {
		.flags = (unsigned int)(flags | O_CLOEXEC),
		.mode = flags & O_CREAT ? FILE_MODE : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
	};
	long fd = syscall(SYS_openat2, directory, name, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

int directory_open_file(int directory, const char *name, int flags)
{
	return open_beneath(directory, name, flags, 0);
}

int directory_enter(int directory, const char *name, bool across)
{
	return open_beneath(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW,
			    across ? 0 : RESOLVE_NO_XDEV);
}

int directory_open(const char *path)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int directory_size(int directory, const char *name, uint64_t *size)
{
	struct stat status;
	int fd = directory_open_file(directory, name, O_PATH);
	int error = 0;

	if (fd < 0)
		return fd;
	if (fstat(fd, &status))
		error = -errno;
	else if (!S_ISREG(status.st_mode))
		error = S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL;
	else
		*size = (uint64_t)status.st_size;
	close(fd);
	return error;
}

/* Calls `action` with the parent directory and the last component of a name of `length` bytes:
 * unlinkat(2) and mkdirat(2) have no RESOLVE_BENEATH. */
static int in_parent(int directory, const char *name, size_t length,
		     int (*action)(int parent, const char *last))
{
	char path[4096], *slash;
	int parent, error;

	if (length >= sizeof(path))
		return -ENAMETOOLONG;
	memcpy(path, name, length);
	path[length] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return action(directory, path);
	*slash = '\0';
	parent = directory_open_file(directory, path, O_PATH | O_DIRECTORY);
	if (parent < 0)
		return parent;
	error = action(parent, slash + 1);
	close(parent);
	return error;
}

/* An empty name, after a trailing slash, is the parent itself. */
static int make_directory(int parent, const char *name)
{
	return *name && mkdirat(parent, name, DIRECTORY_MODE) && errno != EEXIST ? -errno : 0;
}

static int make_parents(int directory, const char *name)
{
	int error = 0;

	for (const char *at = strchr(name, '/'); at && !error; at = strchr(at + 1, '/'))
		error = in_parent(directory, name, (size_t)(at - name), make_directory);
	return error;
}

static int touch(int directory, const char *name, bool *created)
{
	int fd = directory_open_file(directory, name, O_RDWR | O_CREAT | O_EXCL);

	*created = fd >= 0;
	if (fd == -EEXIST) /* also a dangling symbolic link, which is followed */
		fd = directory_open_file(directory, name, O_RDWR | O_CREAT);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int directory_create(int directory, const char *name, bool *created)
{
	int error = touch(directory, name, created);

	if (error != -ENOENT)
		return error;
	return make_parents(directory, name) ?: touch(directory, name, created);
}

static int remove_file(int parent, const char *name)
{
	return unlinkat(parent, name, 0) ? -errno : 0;
}

int directory_remove(int directory, const char *name)
{
	int error = in_parent(directory, name, strlen(name), remove_file);

	return error == -ENOENT ? 0 : error;
}

int directory_drop_cache(int directory, const char *name)
{
	int fd = directory_open_file(directory, name, O_RDONLY);
	int error;

	if (fd < 0)
		return fd;
	error = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	return -error;
}
