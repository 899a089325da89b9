#include "apps/eval/page/page.h"

#include "absl/strings/str_cat.h"
#include "apps/eval/page/page_text.h"
#include "apps/view/page.h"
#include "ng/files.h"

namespace ng::eval {

std::string CardPageText(const CardPage& page) {
  nlohmann::ordered_json data = {{"format", 1}, {"run", page.run}, {"command", page.command}};
  data.update(page.summary);
  return absl::StrCat(std::string(kPageBefore), "<script id=\"ng-card\" type=\"application/json\">",
                      view::ScriptText(data), "</script>\n", std::string(kPageAfter));
}

absl::Status WriteCardPage(const std::string& path, const CardPage& page,
                           const std::atomic<bool>* stop) {
  NG_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::Create(path, stop));
  NG_RETURN_IF_ERROR(file.Write(CardPageText(page)));
  return file.Commit();
}

}  // namespace ng::eval
