# SPDX-License-Identifier: GPL-2.0-only
#
# FioHeaders.cmake - the version of fio and the headers that go with it.
#
# Reads FIO_EXECUTABLE and FIO_SOURCE_DIR. Sets FIO_VERSION (what `fio --version` says),
# FIO_INCLUDE_DIR and FIO_HEADERS_FROM, or nfsmulti_error: one line on what to do.

# The version a source tree would give to the fio built from it; the rules of its FIO-VERSION-GEN.
function(fio_tree_version tree result)
	set(version "")
	if(EXISTS "${tree}/version")
		file(STRINGS "${tree}/version" version LIMIT_COUNT 1)
	elseif(EXISTS "${tree}/.git")
		execute_process(
			COMMAND git describe --match "fio-[0-9]*" --abbrev=4 HEAD
			WORKING_DIRECTORY "${tree}"
			OUTPUT_VARIABLE version
			OUTPUT_STRIP_TRAILING_WHITESPACE
			ERROR_QUIET)
	endif()
	if(NOT version MATCHES "^fio-" AND EXISTS "${tree}/FIO-VERSION-GEN")
		file(STRINGS "${tree}/FIO-VERSION-GEN" version REGEX "^DEF_VER=" LIMIT_COUNT 1)
		string(REPLACE "DEF_VER=" "" version "${version}")
	endif()
	set(${result} "${version}" PARENT_SCOPE)
endfunction()

macro(nfsmulti_fio_version)
	execute_process(
		COMMAND "${FIO_EXECUTABLE}" --version
		OUTPUT_VARIABLE FIO_VERSION
		OUTPUT_STRIP_TRAILING_WHITESPACE
		ERROR_QUIET)
	if(NOT FIO_VERSION MATCHES "^fio-[^\n]+$")
		set(nfsmulti_error
			"${FIO_EXECUTABLE} --version does not answer as fio does: apt-get install fio, or point -DFIO_EXECUTABLE= at a fio")
	endif()
endmacro()

macro(nfsmulti_headers_given)
	# A tree changed since is still the tree it was built from: the ABI probe has the last word.
	fio_tree_version("${FIO_SOURCE_DIR}" fio_given)
	string(REGEX REPLACE "-dirty$" "" fio_wanted "${FIO_VERSION}")
	if(NOT EXISTS "${FIO_SOURCE_DIR}/fio.h" OR fio_given STREQUAL "")
		set(nfsmulti_error
			"FIO_SOURCE_DIR=${FIO_SOURCE_DIR} is no source tree of fio: pass the source of ${FIO_VERSION}, or -DFIO_SOURCE_DIR= to have its headers fetched")
	elseif(NOT fio_given STREQUAL fio_wanted)
		set(nfsmulti_error
			"FIO_SOURCE_DIR=${FIO_SOURCE_DIR} holds ${fio_given}, but ${FIO_EXECUTABLE} is ${FIO_VERSION}: pass the source of ${FIO_VERSION}, or -DFIO_SOURCE_DIR= to have its headers fetched")
	else()
		set(FIO_INCLUDE_DIR "${FIO_SOURCE_DIR}")
		set(FIO_HEADERS_FROM "${FIO_SOURCE_DIR}")
	endif()
endmacro()

macro(nfsmulti_headers_packaged)
	message(STATUS "Looking for the headers of ${FIO_VERSION} (apt-get fetches the source package once: no other has them)")
	execute_process(
		COMMAND sh "${CMAKE_CURRENT_LIST_DIR}/fio-headers.sh" "${FIO_EXECUTABLE}"
			"${CMAKE_BINARY_DIR}/fio-headers" "${CMAKE_COMMAND}"
		RESULT_VARIABLE fio_failed
		OUTPUT_VARIABLE fio_found
		ERROR_VARIABLE fio_complaint
		OUTPUT_STRIP_TRAILING_WHITESPACE
		ERROR_STRIP_TRAILING_WHITESPACE)
	if(fio_failed)
		set(nfsmulti_error "${fio_complaint}")
	elseif(fio_found MATCHES "^([^ ]+ [^ ]+) (.*)$")
		set(FIO_INCLUDE_DIR "${CMAKE_MATCH_2}")
		set(FIO_HEADERS_FROM "the source package ${CMAKE_MATCH_1}")
		fio_tree_version("${FIO_INCLUDE_DIR}" fio_given)
		if(NOT fio_given STREQUAL FIO_VERSION)
			set(nfsmulti_error
				"${FIO_HEADERS_FROM} is ${fio_given}, but ${FIO_EXECUTABLE} says ${FIO_VERSION}: pass -DFIO_SOURCE_DIR=DIRECTORY, the source it was compiled from")
		endif()
	endif()
endmacro()

nfsmulti_fio_version()
if(NOT nfsmulti_error)
	if(FIO_SOURCE_DIR)
		nfsmulti_headers_given()
	else()
		nfsmulti_headers_packaged()
	endif()
endif()
