# SPDX-License-Identifier: GPL-2.0-only
#
# BuiltFor.cmake - writes built-for.h, what the engine's guard knows of this build, into
# NFSMULTI_GENERATED_DIR.

function(c_string text result)
	string(REPLACE "\\" "\\\\" text "${text}")
	string(REPLACE "\"" "\\\"" text "${text}")
	set(${result} "${text}" PARENT_SCOPE)
endfunction()

set(NFSMULTI_GENERATED_DIR "${CMAKE_BINARY_DIR}/generated")
c_string("${FIO_VERSION}" fio_version_c)
c_string("${PROJECT_SOURCE_DIR}" source_dir_c)
configure_file("${CMAKE_CURRENT_LIST_DIR}/built-for.h.in"
	"${NFSMULTI_GENERATED_DIR}/built-for.h" @ONLY)
