# SPDX-License-Identifier: GPL-2.0-only
#
# Package.cmake - a .deb or .rpm of the engine for the distribution's fio, and one of the harness,
# by CPack.
#
# The engine refuses any fio but the one that it was built for, so the package depends on exactly
# that one, and carries its version in its own. For a fio that no package brought it is a .tar.gz.

find_program(DPKG_QUERY dpkg-query)
find_program(RPM rpm)
mark_as_advanced(DPKG_QUERY RPM)

# What a command says; empty where it fails.
function(ask result)
	execute_process(COMMAND ${ARGN}
		OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
		RESULT_VARIABLE status)
	if(status)
		set(said "")
	endif()
	set(${result} "${said}" PARENT_SCOPE)
endfunction()

file(REAL_PATH "${FIO_EXECUTABLE}" fio_file)
set(deb_fio "")
if(DPKG_QUERY)
	ask(owner "${DPKG_QUERY}" -S "${fio_file}")
	if(owner MATCHES "^fio: ")
		ask(deb_fio "${DPKG_QUERY}" -W -f "\${Version}" fio)
	endif()
endif()
set(rpm_fio "")
if(RPM)
	ask(rpm_fio "${RPM}" -qf --queryformat "%{VERSION}-%{RELEASE}" "${fio_file}")
endif()

# "3.33" of "fio-3.33": what an .rpm that is made elsewhere can ask for.
string(REGEX REPLACE "^fio-" "" fio_number "${FIO_VERSION}")
string(REPLACE "-" "." fio_number "${fio_number}")

set(CPACK_PACKAGE_NAME fio-engine-nfsmulti)
set(CPACK_PACKAGE_VENDOR "nfsmulti")
set(CPACK_PACKAGE_CONTACT "the nfsmulti developers <nfsmulti@users.noreply.github.com>")
# Of two commits the later one's package is the newer one to apt and dnf.
ask(committed "${CMAKE_COMMAND}" -E env TZ=UTC git -C "${PROJECT_SOURCE_DIR}" log -1
	--format=+git%cd --date=format-local:%Y%m%d.%H%M%S -- .)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}${committed}+fio${fio_number}")
set(engine_summary "NFS ioengine of fio: many connections, addresses and mounts")
set(engine_description "Benchmarks NFSv3 and NFSv4.1 from user space, over TCP or RDMA, and
kernel mounts: one fio job over one connection or over a pool of them.
With failover, writes verified across restarts of the server, statistics
for each connection, and job files of published measurements.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)

set(CPACK_COMPONENTS_ALL engine harness)
set(harness_summary "NFS benchmarks over many connections, addresses and mounts")
set(harness_description "The command nfsmulti: published NFS measurements on your own servers or in
a laboratory on this machine, faults, comparisons and reports, by fio and
its ioengine nfsmulti.")

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_ENGINE_PACKAGE_NAME ${CPACK_PACKAGE_NAME})
set(CPACK_DEBIAN_ENGINE_DESCRIPTION "${engine_summary}\n${engine_description}")
set(CPACK_DEBIAN_ENGINE_PACKAGE_DEPENDS "fio (= ${deb_fio})")
set(CPACK_DEBIAN_ENGINE_PACKAGE_SUGGESTS "ibverbs-providers, nfsmulti")
set(CPACK_DEBIAN_HARNESS_PACKAGE_NAME nfsmulti)
set(CPACK_DEBIAN_HARNESS_DESCRIPTION "${harness_summary}\n${harness_description}")
set(CPACK_DEBIAN_HARNESS_PACKAGE_DEPENDS "${CPACK_PACKAGE_NAME} (= ${CPACK_PACKAGE_VERSION}), python3 (>= 3.11), python3-jinja2, python3-matplotlib, python3-psutil, python3-rich, python3-scipy")

set(rpm_requires "${rpm_fio}")
if(NOT rpm_fio)
	set(rpm_requires "${fio_number}")
endif()
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_MAIN_COMPONENT engine)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE GPL-2.0-only)
set(CPACK_RPM_ENGINE_PACKAGE_SUMMARY "${engine_summary}")
set(CPACK_RPM_ENGINE_PACKAGE_DESCRIPTION "${engine_description}")
set(CPACK_RPM_ENGINE_PACKAGE_REQUIRES "fio = ${rpm_requires}")
set(CPACK_RPM_HARNESS_PACKAGE_NAME nfsmulti)
set(CPACK_RPM_HARNESS_PACKAGE_SUMMARY "${harness_summary}")
set(CPACK_RPM_HARNESS_PACKAGE_DESCRIPTION "${harness_description}")
set(CPACK_RPM_HARNESS_PACKAGE_REQUIRES "${CPACK_PACKAGE_NAME} = ${CPACK_PACKAGE_VERSION}, python3 >= 3.11")
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
	"/usr/${CMAKE_INSTALL_LIBDIR}" "/usr/${CMAKE_INSTALL_LIBDIR}/fio"
	"/usr/${CMAKE_INSTALL_LIBEXECDIR}" /usr/share/bash-completion
	/usr/share/bash-completion/completions /usr/share/zsh /usr/share/zsh/site-functions
	/usr/share/man
	/usr/share/man/man1 /usr/share/man/man7)

if(deb_fio)
	set(CPACK_GENERATOR DEB)
elseif(rpm_fio)
	set(CPACK_GENERATOR RPM)
else()
	set(CPACK_GENERATOR TGZ)
endif()

# What Debian wants to find in share/doc/PACKAGE, for one of our packages.
function(install_doc package component)
	set(doc "${CMAKE_INSTALL_DATADIR}/doc/${package}")
	set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME ${component})
	install(FILES packaging/copyright DESTINATION "${doc}")
	string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
	set(changelog "${CMAKE_BINARY_DIR}/made/${doc}/changelog")
	file(WRITE "${changelog}"
"${package} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * nfsmulti ${PROJECT_VERSION} for fio ${deb_fio}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
	execute_process(COMMAND gzip -9nf "${changelog}" COMMAND_ERROR_IS_FATAL ANY)
	install_made("${doc}/changelog.gz")
endfunction()

set(doc "${CMAKE_INSTALL_DATADIR}/doc/${CPACK_PACKAGE_NAME}")
install(DIRECTORY docs DESTINATION "${doc}" COMPONENT engine)
# Links out of docs/ lead nowhere there: their words stay.
install(CODE "set(docs \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${doc}/docs\")" COMPONENT engine)
install(CODE [[
	file(GLOB pages "${docs}/*.md")
	foreach(page ${pages})
		file(READ "${page}" text)
		string(REGEX REPLACE "\\[([^][]*)\\]\\(\\.\\./[^)]*\\)" "\\1" text "${text}")
		file(WRITE "${page}" "${text}")
	endforeach()
]] COMPONENT engine)
# Where zsh looks for the completion of what packages bring.
set(zsh site-functions)
if(CPACK_GENERATOR STREQUAL "DEB")
	install_doc(${CPACK_PACKAGE_NAME} engine)
	install_doc(nfsmulti harness)
	set(zsh vendor-completions)
else()
	install(FILES COPYING DESTINATION "${doc}" COMPONENT engine)
endif()
install(FILES "${CMAKE_BINARY_DIR}/completion/zsh" OPTIONAL RENAME _nfsmulti
	DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/${zsh}" COMPONENT harness)

include(CPack)
