// What a format works with: the tensors of a file, what its config says of quantisation, and where
// the matrices that it finds go.
//
// Errors are one line: the file, the tensor or key, what was found, what is allowed.
#ifndef NG_CORE_FORMATS_QUANTISED_FORM_FINDER_H_
#define NG_CORE_FORMATS_QUANTISED_FORM_FINDER_H_

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/json.h"
#include "core/formats/quantised/matrix_form.h"
#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

class FormFinder {
 public:
  // What the config says of quantisation. `prefix` goes before its keys in errors.
  struct Config {
    const nlohmann::json& object;
    const JsonFields& fields;  // of it
    std::string file;
    std::string prefix;
  };
  // All is borrowed.
  FormFinder(const TensorSource& source, Config config)
      : source_(source), config_(std::move(config)) {}

  const TensorSource& source() const { return source_; }
  const JsonFields& config() const { return config_.fields; }
  const nlohmann::json& object() const { return config_.object; }
  const std::string& file() const { return config_.file; }

  const TensorInfo* Find(std::string_view name) const { return source_.Find(name); }
  // The tensor `name`, which `beside` needs.
  absl::StatusOr<const TensorInfo*> Need(const TensorInfo& beside, const std::string& name) const;
  // Name of a tensor without its ending, where it has it.
  static std::optional<std::string> Before(const TensorInfo& tensor, std::string_view ending);

  absl::Status CheckType(const TensorInfo& tensor, std::initializer_list<DType> allowed) const;
  absl::Status CheckShape(const TensorInfo& tensor, std::span<const int64_t> shape) const;
  absl::Status CheckShape(const TensorInfo& tensor, std::initializer_list<int64_t> shape) const {
    return CheckShape(tensor, std::span(shape.begin(), shape.size()));
  }
  absl::Status CheckRank(const TensorInfo& tensor, size_t least, size_t most) const;
  // "FILE: tensor "x" has shape [2], must be ..."
  absl::Status WrongShape(const TensorInfo& tensor, std::string_view allowed) const;
  absl::Status Refuse(const TensorInfo& tensor, std::string_view what) const;
  // Of a key of the config: "FILE: key "quantization_config.x" = 3, must be ..."
  absl::Status RefuseKey(std::string_view key, std::string_view allowed) const;

  // The text of a key, which is one of those allowed; absent where it is not there.
  absl::StatusOr<std::string> OneOf(std::string_view key,
                                    std::initializer_list<std::string_view> allowed,
                                    std::string_view absent) const;
  // Keys that change no value are read, so that they stop nobody.
  void Inert(std::initializer_list<std::string_view> keys) const;
  // Errors: a key that says something and that nobody read.
  absl::Status CheckAllRead() const;

  // A matrix. Sets its name, shape, type and sizes; its tensors are no others' any more.
  void Add(MatrixForm form, std::string name, std::vector<int64_t> shape);
  // A tensor that the model does not need.
  void Drop(const TensorInfo& tensor) { dropped_.insert(tensor.name); }
  // The same for all whose name ends so: what the products' inputs are rounded with.
  void DropEnding(std::initializer_list<std::string_view> endings);
  // What a user should know: once each.
  void Note(std::string note);

  std::vector<MatrixForm>& matrices() { return matrices_; }
  const std::set<std::string>& dropped() const { return dropped_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  const TensorSource& source_;
  Config config_;
  std::vector<MatrixForm> matrices_;
  std::set<std::string> dropped_;
  std::vector<std::string> notes_;
};

}  // namespace ng

#endif  // NG_CORE_FORMATS_QUANTISED_FORM_FINDER_H_
