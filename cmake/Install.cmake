# SPDX-License-Identifier: GPL-2.0-only
#
# Install.cmake - what `cmake --install` and the packages put where.
#
# fio finds `ioengine=nfsmulti` by dlopen("nfsmulti"), for which a link of that name in the loader's
# own folders is enough; a fio with dynamic engines (Fedora's) finds fio-nfsmulti.so in its own.
# `ioengine=external:PATH` works with the engine's own file, and is the way below another prefix than
# /usr, where neither looks.

include(GNUInstallDirs)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME engine)

if(EXISTS /etc/debian_version)
	set(default_link "${CMAKE_INSTALL_LIBDIR}/nfsmulti")
else()
	set(default_link "${CMAKE_INSTALL_LIBDIR}/fio/fio-nfsmulti.so")
endif()
set(NFSMULTI_LINK "${default_link}" CACHE STRING "By which fio finds ioengine=nfsmulti")

# A file below the prefix, made now: a link, or a page of the manual.
function(install_made file)
	cmake_path(GET file PARENT_PATH folder)
	install(FILES "${CMAKE_BINARY_DIR}/made/${file}" DESTINATION "${folder}")
endfunction()

# Installs `link`, which leads to `target`; both are paths below the prefix.
function(install_link target link)
	cmake_path(GET link PARENT_PATH folder)
	cmake_path(RELATIVE_PATH target BASE_DIRECTORY "${folder}" OUTPUT_VARIABLE target)
	file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/made/${folder}")
	file(CREATE_LINK "${target}" "${CMAKE_BINARY_DIR}/made/${link}" SYMBOLIC)
	install_made("${link}")
endfunction()

install(TARGETS nfsmulti LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/fio")
install_link("${CMAKE_INSTALL_LIBDIR}/fio/libnfsmulti.so" "${NFSMULTI_LINK}")

set(programs nfsmulti-export nfsmulti-pool)
if(RDMA_FOUND)
	list(APPEND programs nfsmulti-rdma)
endif()
install(TARGETS ${programs} RUNTIME)
install(DIRECTORY jobfiles/ DESTINATION "${CMAKE_INSTALL_DATADIR}/nfsmulti/jobfiles"
	FILES_MATCHING PATTERN "*.fio")

# The manual, compressed as distributions want it.
function(install_page text file)
	set(page "${CMAKE_BINARY_DIR}/made/${CMAKE_INSTALL_MANDIR}/${file}")
	file(WRITE "${page}" "${text}")
	execute_process(COMMAND gzip -9nf "${page}" COMMAND_ERROR_IS_FATAL ANY)
	install_made("${CMAKE_INSTALL_MANDIR}/${file}.gz")
endfunction()

file(READ man/nfsmulti.7 manual)
install_page("${manual}" man7/nfsmulti.7)
foreach(program ${programs})
	install_page(".so man7/nfsmulti.7\n" "man1/${program}.1")
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS man/nfsmulti.7)
