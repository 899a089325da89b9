// Rows of the reference under tests/data.
#ifndef NG_TESTS_CORE_TEXT_GOLDEN_ROWS_H_
#define NG_TESTS_CORE_TEXT_GOLDEN_ROWS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "ng/tokenizer.h"
#include "tests/support/temp_dir.h"

namespace ng {

using Ids = std::vector<int32_t>;

// The lines of a .jsonl file below tests/data.
inline std::vector<nlohmann::json> GoldenRows(const std::string& file) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(test::Slurp(NG_TEST_DATA "/" + file));
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

// What a row asks of Encode; a flag that is not there is false.
inline EncodeOptions OptionsOf(const nlohmann::json& row) {
  return {.parse_special = row.value("parse_special", false),
          .add_special = row.value("add_special", false)};
}

inline std::string ConcatenatedTokenBytes(const Tokenizer& tokenizer, const Ids& ids) {
  std::string bytes;
  for (const int32_t id : ids) bytes += tokenizer.TokenBytes(id);
  return bytes;
}

// A megabyte of one string again and again.
inline std::string Megabyte(std::string_view unit) {
  std::string text;
  while (text.size() < 1 << 20) text += unit;
  return text;
}

}  // namespace ng

#endif  // NG_TESTS_CORE_TEXT_GOLDEN_ROWS_H_
