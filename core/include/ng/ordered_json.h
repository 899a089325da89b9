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
  bool start_object(size_t /*size*/) override { return Begin(/*is_list=*/false); }
  bool start_array(size_t /*size*/) override { return Begin(/*is_list=*/true); }
  bool end_object() override { return End(); }
  bool end_array() override { return End(); }
  bool key(string_t& name) override {
    open_.back().keys.push_back(std::move(name));
    return true;
  }
  bool parse_error(size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    return false;
  }

 private:
  using Members = Json::object_t;  // pairs, which cannot be moved: their keys are const

  // A container that is being read.
  struct Open {
    bool is_list;
    std::vector<std::string> keys;  // [values], of an object
    std::vector<Json> values;
  };

  bool Put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else {
      open_.back().values.push_back(std::move(value));
    }
    return true;
  }
  bool Begin(bool is_list) {
    open_.push_back({is_list, {}, {}});
    return true;
  }
  // Room for all members at once: a list of pairs that grows copies all that is in them.
  bool End() {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (done.is_list) return Put(Json(Json::array_t(std::move(done.values))));
    Members members;
    members.reserve(done.values.size());
    for (size_t i = 0; i < done.values.size(); ++i) {
      members.emplace_back(std::move(done.keys[i]), std::move(done.values[i]));
    }
    Json object = Json::object();
    object.get_ref<Members&>().swap(members);
    return Put(std::move(object));
  }

  Json root_;
  std::vector<Open> open_;  // outermost first
};

// REQUIRES: CheckJson has found nothing wrong with the text.
inline nlohmann::ordered_json ParseCheckedJson(std::string_view text) {
  OrderedJsonBuilder builder;
  nlohmann::ordered_json::sax_parse(text, &builder);
  return builder.Take();
}

}  // namespace ng

#endif  // NG_ORDERED_JSON_H_
