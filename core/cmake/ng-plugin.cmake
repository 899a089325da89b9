# ng_add_plugin(<kind> <name> <source>...): a plugin library ng_<kind>_<name>.so.
#
# The name is the one that the config uses. Only the descriptor `ng_plugin` is exported. Inside ng's
# own tree (NG_PLUGIN_OUTPUT_DIRECTORY set) the plugin is also installed.
function(ng_add_plugin kind name)
  set(target ng_${kind}_${name})
  add_library(${target} MODULE ${ARGN})
  target_link_libraries(${target} PRIVATE ng::ng_core)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  # Hidden visibility alone would leak the standard library's inline variables.
  set(map ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/ng-plugin.map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  set_target_properties(
    ${target}
    PROPERTIES LINK_DEPENDS ${map}
               PREFIX ""
               SUFFIX ".so"
               CXX_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON)
  if(NG_PLUGIN_OUTPUT_DIRECTORY)
    set_target_properties(
      ${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${NG_PLUGIN_OUTPUT_DIRECTORY}
                           INSTALL_RPATH "$ORIGIN/../..")
    install(TARGETS ${target} LIBRARY DESTINATION ${NG_PLUGIN_INSTALL_DIRECTORY})
  endif()
endfunction()
