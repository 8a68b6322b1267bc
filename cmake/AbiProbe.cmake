# SPDX-License-Identifier: GPL-2.0-only
#
# AbiProbe.cmake - do the headers fit the real fio?
#
# A version number does not tell: distributions ship commits between releases under the release's
# name. So a small plugin holding the engine's own guard is loaded into fio, which compares the
# offsets in fio's option table with those of the headers. Sets nfsmulti_error when they differ.

set(probe_dir "${CMAKE_BINARY_DIR}/abi-probe")
file(REMOVE_RECURSE "${probe_dir}")
file(MAKE_DIRECTORY "${probe_dir}")

# An "executable" that is linked with -shared: try_compile knows no other way to a plugin.
set(CMAKE_TRY_COMPILE_TARGET_TYPE EXECUTABLE)
set(probe_includes "${PROJECT_SOURCE_DIR}/engine/fio" "${NFSMULTI_GENERATED_DIR}" "${FIO_INCLUDE_DIR}")
try_compile(probe_compiled "${probe_dir}/build"
	SOURCES "${PROJECT_SOURCE_DIR}/cmake/abi-probe.c" "${PROJECT_SOURCE_DIR}/engine/fio/abi.c"
	CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${probe_includes}"
	COMPILE_DEFINITIONS -D_GNU_SOURCE -fPIC -fvisibility=hidden -include config-host.h
	LINK_OPTIONS -shared -Wl,-z,nodelete
	OUTPUT_VARIABLE probe_log
	COPY_FILE "${probe_dir}/probe.so"
	C_STANDARD 11)

if(NOT probe_compiled)
	file(WRITE "${probe_dir}/log" "${probe_log}")
	string(REGEX MATCH "[^\n]*error[^\n]*" probe_complaint "${probe_log}")
	set(nfsmulti_error
		"the headers of fio in ${FIO_INCLUDE_DIR} do not compile (${probe_complaint}; all of it in ${probe_dir}/log): is that a complete source tree of ${FIO_VERSION}?")
	return()
endif()

# By a relative name, because fio would cut the path at a comma.
execute_process(
	COMMAND "${FIO_EXECUTABLE}" --enghelp=./probe.so
	WORKING_DIRECTORY "${probe_dir}"
	OUTPUT_VARIABLE probe_answer
	ERROR_VARIABLE probe_answer
	TIMEOUT 60)

if(probe_answer MATCHES "nfsmulti-abi: refused: ([^\n]*)")
	set(nfsmulti_error
		"the headers from ${FIO_HEADERS_FROM} do not fit ${FIO_EXECUTABLE} (${CMAKE_MATCH_1}): pass -DFIO_SOURCE_DIR=DIRECTORY, the very source it was compiled from")
elseif(NOT probe_answer MATCHES "nfsmulti-abi: fits")
	string(STRIP "${probe_answer}" probe_answer)
	string(REPLACE "\n" "; " probe_answer "${probe_answer}")
	set(nfsmulti_error
		"${FIO_EXECUTABLE} cannot load an external engine (${probe_answer}): it must be able to dlopen, so not a static build")
endif()
