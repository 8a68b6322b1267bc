# SPDX-License-Identifier: GPL-2.0-only
#
# InstallHarness.cmake - the front end and the harness as the command nfsmulti.
#
# share/nfsmulti is laid out like this source tree, so that both look for their things alike. Its
# build/ is a link to libexec/nfsmulti, which shows the engine's files beside what only the harness
# runs, as a build does.

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME harness)
set(share "${CMAKE_INSTALL_DATADIR}/nfsmulti")
set(libexec "${CMAKE_INSTALL_LIBEXECDIR}/nfsmulti")

install(PROGRAMS nfsmulti DESTINATION "${share}")
install(PROGRAMS cmake/fio-headers.sh DESTINATION "${share}/cmake")
install(FILES python-tests/requirements-harness.lock DESTINATION "${share}/python-tests")
set(executable
	OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(DIRECTORY python-tests/nfsmulti python-tests/servers DESTINATION "${share}/python-tests"
	PATTERN __pycache__ EXCLUDE
	PATTERN servers/core EXCLUDE
	PATTERN servers/scripted EXCLUDE
	PATTERN servers/sink EXCLUDE
	PATTERN "*.sh" PERMISSIONS ${executable})
install_link("${share}/nfsmulti" "${CMAKE_INSTALL_BINDIR}/nfsmulti")

# Where ./nfsmulti package could make it; Package.cmake has zsh's.
install(FILES "${CMAKE_BINARY_DIR}/completion/bash" OPTIONAL RENAME nfsmulti
	DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")

install(TARGETS nfs-sink RUNTIME DESTINATION "${libexec}")
install_link("${libexec}" "${share}/build")
install_link("${CMAKE_INSTALL_LIBDIR}/fio/libnfsmulti.so" "${libexec}/libnfsmulti.so")
foreach(program ${programs})
	install_link("${CMAKE_INSTALL_BINDIR}/${program}" "${libexec}/${program}")
endforeach()

file(READ man/nfsmulti.1 manual)
install_page("${manual}" man1/nfsmulti.1)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS man/nfsmulti.1)
