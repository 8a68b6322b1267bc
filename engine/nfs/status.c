/* SPDX-License-Identifier: GPL-2.0-only */
#include "nfs/status.h"

#include <errno.h>
#include <stddef.h>

#include "util.h"

/* RFC 1813, 2.6 */
static const struct {
	uint32_t status;
	int error;
	const char *name;
} statuses[] = {
	{0, 0, "NFS3_OK"},
	{1, EPERM, "NFS3ERR_PERM"},
	{2, ENOENT, "NFS3ERR_NOENT"},
	{5, EIO, "NFS3ERR_IO"},
	{6, ENXIO, "NFS3ERR_NXIO"},
	{13, EACCES, "NFS3ERR_ACCES"},
	{17, EEXIST, "NFS3ERR_EXIST"},
	{18, EXDEV, "NFS3ERR_XDEV"},
	{19, ENODEV, "NFS3ERR_NODEV"},
	{20, ENOTDIR, "NFS3ERR_NOTDIR"},
	{21, EISDIR, "NFS3ERR_ISDIR"},
	{22, EINVAL, "NFS3ERR_INVAL"},
	{27, EFBIG, "NFS3ERR_FBIG"},
	{28, ENOSPC, "NFS3ERR_NOSPC"},
	{30, EROFS, "NFS3ERR_ROFS"},
	{31, EMLINK, "NFS3ERR_MLINK"},
	{63, ENAMETOOLONG, "NFS3ERR_NAMETOOLONG"},
	{66, ENOTEMPTY, "NFS3ERR_NOTEMPTY"},
	{69, EDQUOT, "NFS3ERR_DQUOT"},
	{NFS3_STATUS_STALE, ESTALE, "NFS3ERR_STALE"},
	{71, EREMOTE, "NFS3ERR_REMOTE"},
	{10001, EBADF, "NFS3ERR_BADHANDLE"},
	{10002, EIO, "NFS3ERR_NOT_SYNC"},
	{NFS3_STATUS_BAD_COOKIE, EIO, "NFS3ERR_BAD_COOKIE"},
	{10004, EOPNOTSUPP, "NFS3ERR_NOTSUPP"},
	{10005, EIO, "NFS3ERR_TOOSMALL"},
	{10006, EREMOTEIO, "NFS3ERR_SERVERFAULT"},
	{10007, EIO, "NFS3ERR_BADTYPE"},
	{NFS3_STATUS_JUKEBOX, EAGAIN, "NFS3ERR_JUKEBOX"},
	{NFS4_STATUS_GRACE, EAGAIN, "NFS4ERR_GRACE"},
};

int nfs3_errno(uint32_t status)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].status == status)
			return statuses[i].error;
	return EIO;
}

bool nfs3_asks_to_wait(uint32_t status)
{
	return status == NFS3_STATUS_JUKEBOX || status == NFS4_STATUS_GRACE;
}

const char *nfs3_status_name(uint32_t status)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].status == status)
			return statuses[i].name;
	return "an unknown nfsstat3";
}
