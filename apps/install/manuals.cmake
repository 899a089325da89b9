# Asks each of NG_PROGRAMS for its man page and its completion, and installs them.
get_target_property(NG_MANUAL_PLUGINS ng_plugins MANUALLY_ADDED_DEPENDENCIES)
set(NG_MANUAL_DIR ${CMAKE_CURRENT_BINARY_DIR}/manuals)
file(MAKE_DIRECTORY ${NG_MANUAL_DIR})
set(NG_MANUALS "")
foreach(program ${NG_PROGRAMS})
  set(page ${NG_MANUAL_DIR}/${program}.1.gz)
  set(bash ${NG_MANUAL_DIR}/${program})
  set(zsh ${NG_MANUAL_DIR}/_${program})
  set(fish ${NG_MANUAL_DIR}/${program}.fish)
  add_custom_command(
    OUTPUT ${page} ${bash} ${zsh} ${fish}
    COMMAND ${program} --man-page > ${NG_MANUAL_DIR}/${program}.1
    COMMAND gzip -9nf ${NG_MANUAL_DIR}/${program}.1
    COMMAND ${program} --completion bash > ${bash}
    COMMAND ${program} --completion zsh > ${zsh}
    COMMAND ${program} --completion fish > ${fish}
    DEPENDS ${program} ${NG_MANUAL_PLUGINS}
    COMMENT "Man page and completion of ${program}"
    VERBATIM)
  list(APPEND NG_MANUALS ${page} ${bash} ${zsh} ${fish})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)
  install(FILES ${bash} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT programs)
  # Where Debian's zsh looks for what packages bring.
  install(FILES ${zsh} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT programs)
  install(FILES ${fish} DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT programs)
endforeach()
add_custom_target(ng_manuals ALL DEPENDS ${NG_MANUALS})
