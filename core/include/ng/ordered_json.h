// JSON text as a value whose keys keep their order, in time that grows as the text does.
//
// The library's own parser looks for each key of an object among all that came before it, so an
// object of 40,000 keys takes seconds. CheckJson has found that no key comes twice: here each is
// put behind the others.
#ifndef NG_ORDERED_JSON_H_
#define NG_ORDERED_JSON_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ng {

class OrderedJsonBuilder final : public nlohmann::json_sax<nlohmann::ordered_json> {
  using Json = nlohmann::ordered_json;

 public:
  OrderedJsonBuilder() noexcept(false) = default;  // as the library's own values
  OrderedJsonBuilder(const OrderedJsonBuilder&) = delete;
  OrderedJsonBuilder& operator=(const OrderedJsonBuilder&) = delete;

  Json Take() { return std::move(root_); }

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return Put(value); }
  bool string(string_t& value) override { return Put(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override { return Open(Json::object()); }
  bool start_array(size_t /*size*/) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    return false;
  }

 private:
  Json& Add(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& container = *open_.back();
    if (container.is_array()) {
      container.push_back(std::move(value));
      return container.back();
    }
    auto& members = container.get_ref<Json::object_t&>();
    members.emplace_back(std::move(key_), std::move(value));
    return members.back().second;
  }
  bool Put(Json value) {
    Add(std::move(value));
    return true;
  }
  bool Open(Json container) {
    open_.push_back(&Add(std::move(container)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // the containers around the parser's place, outermost first
  std::string key_;          // of the value to come
};

// REQUIRES: CheckJson has found nothing wrong with the text.
inline nlohmann::ordered_json ParseCheckedJson(std::string_view text) {
  OrderedJsonBuilder builder;
  nlohmann::ordered_json::sax_parse(text, &builder);
  return builder.Take();
}

}  // namespace ng

#endif  // NG_ORDERED_JSON_H_
