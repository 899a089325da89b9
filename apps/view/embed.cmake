# Makes page_text.cc of page.html, with the style sheet and the scripts that it names put in. The
# line of the data parts the two texts.
#   cmake -DFOLDER=apps/view -DHEADER=apps/view/page_text.h -DNAMESPACE=ng::view -DOUTPUT=page_text.cc
#         -P embed.cmake
file(READ ${FOLDER}/page.html page)

# Puts `opening`, the file and `closing` in place of the line `tag`.
function(put tag name opening closing)
  file(READ ${FOLDER}/${name} text)
  string(REPLACE "${tag}" "${opening}\n${text}${closing}" page "${page}")
  set(page "${page}" PARENT_SCOPE)
endfunction()

put("<link rel=\"stylesheet\" href=\"page.css\">" page.css "<style>" "</style>")
# The text is searched and not split: it has semicolons and brackets, which lists of CMake do not bear.
while(page MATCHES "<script src=\"([a-z_]+\\.js)\"></script>")
  set(name ${CMAKE_MATCH_1})
  put("<script src=\"${name}\"></script>" ${name} "<script>" "</script>")
endwhile()

set(mark "<!-- ng: data -->")
string(FIND "${page}" "${mark}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${FOLDER}/page.html has no line ${mark}")
endif()
string(LENGTH "${mark}" length)
math(EXPR behind "${at} + ${length}")
string(SUBSTRING "${page}" 0 ${at} before)
string(SUBSTRING "${page}" ${behind} -1 after)
file(WRITE ${OUTPUT}.new "// Made by apps/view/embed.cmake.
#include \"${HEADER}\"

namespace ${NAMESPACE} {

const std::string_view kPageBefore = R\"_ng_(${before})_ng_\";
const std::string_view kPageAfter = R\"_ng_(${after})_ng_\";

}  // namespace ${NAMESPACE}
")
file(RENAME ${OUTPUT}.new ${OUTPUT})
