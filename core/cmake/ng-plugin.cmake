# ng_add_plugin(<kind> <name> <source>... [LEVELS <source>...] [COMPONENT <component>]): a plugin
# library ng_<kind>_<name>.so.
#
# The name is the one that the config uses. Only the descriptor `ng_plugin` is exported. Sources
# behind LEVELS are compiled once for each instruction set level (ng/level.h). Inside ng's own tree
# (NG_PLUGIN_OUTPUT_DIRECTORY set) the plugin is also installed, with COMPONENT or else with core.
function(ng_add_plugin kind name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "COMPONENT" "LEVELS")
  set(target ng_${kind}_${name})
  add_library(${target} MODULE ${arg_UNPARSED_ARGUMENTS})
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
  if(arg_LEVELS)
    ng_add_levels(${target} ${arg_LEVELS})
  endif()
  if(NG_PLUGIN_OUTPUT_DIRECTORY)
    set_target_properties(
      ${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${NG_PLUGIN_OUTPUT_DIRECTORY}
                           INSTALL_RPATH "$ORIGIN/../..")
    set(component core)
    if(arg_COMPONENT)
      set(component ${arg_COMPONENT})
    endif()
    install(TARGETS ${target} LIBRARY DESTINATION ${NG_PLUGIN_INSTALL_DIRECTORY} COMPONENT ${component})
  endif()
endfunction()

# ng_add_levels(<target> <source>...): adds the sources to the target, once for each level of ng/isa.h.
# A level's objects are a target of their own, <target>_<level>; the target's property
# NG_LEVEL_OBJECTS lists them.
function(ng_add_levels target)
  set(levels scalar avx2 avx_vnni avx512 avx512_vnni avx512_bf16)
  if(NG_SANITIZE) # ng's own tree, which has no kernels for the others then
    set(levels scalar avx2)
  endif()
  foreach(level ${levels})
    set(objects ${target}_${level})
    string(TOUPPER NG_LEVEL_${level} definition)
    add_library(${objects} OBJECT ${ARGN})
    target_link_libraries(${objects} PRIVATE ng::ng_core)
    target_compile_definitions(
      ${objects} PRIVATE ${definition} $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
    target_include_directories(${objects} PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
    target_compile_options(
      ${objects} PRIVATE $<TARGET_PROPERTY:${target},COMPILE_OPTIONS> -ffp-contract=off)
    set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                                VISIBILITY_INLINES_HIDDEN ON)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
    set_property(TARGET ${target} APPEND PROPERTY NG_LEVEL_OBJECTS ${objects})
  endforeach()
endfunction()
