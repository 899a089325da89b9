#include "core/runtime/groups/result_bytes.h"

#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace ng {
namespace {

template <typename Record, typename T>
concept Is = std::is_same_v<std::remove_const_t<Record>, T>;

// The fields of each record, once for both directions.
template <typename Visit, Is<StageRecord> Record>
void Fields(Visit& visit, Record& record) {
  visit.All(record.name, record.n_left, record.top);
}

template <typename Visit, Is<AttentionRow> Record>
void Fields(Visit& visit, Record& record) {
  visit.All(record.layer, record.head, record.probs);
}

template <typename Visit, Is<TokenLogprob> Record>
void Fields(Visit& visit, Record& record) {
  visit.All(record.token_id, record.logprob, record.top);
}

template <typename Visit, Is<CapturedPoint> Record>
void Fields(Visit& visit, Record& record) {
  visit.All(record.at, record.n_values, record.rows);
}

template <typename Visit, Is<CapturedTensors> Record>
void Fields(Visit& visit, Record& record) {
  visit.All(record.logits, record.decode_logits, record.attn_full, record.points);
}

template <typename Visit, Is<StepRecord> Record>
void Fields(Visit& visit, Record& record) {
  visit.All(record.step, record.token_id, record.logprob, record.entropy, record.top_k,
            record.stages, record.attn_rows, record.drafted, record.logits_hash, record.held_bytes,
            record.top_logprobs, record.missed);
}

template <typename Visit, Is<Completion> Record>
void Fields(Visit& visit, Record& record) {
  visit.All(record.ids, record.prompt_len, record.stop_reason, record.timings, record.captured,
            record.held_bytes, record.prompt_logprobs);
}

class Writing {
 public:
  explicit Writing(std::string& bytes) : bytes_(bytes) {}

  template <typename... Field>
  void All(const Field&... fields) {
    ((*this)(fields), ...);
  }

  template <typename T>
  void operator()(const T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    } else {
      Fields(*this, value);
    }
  }
  template <typename A, typename B>
  void operator()(const std::pair<A, B>& both) {
    All(both.first, both.second);
  }
  template <typename T>
  void operator()(const std::vector<T>& list) {
    (*this)(list.size());
    if constexpr (std::is_trivially_copyable_v<T>) {
      bytes_.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T));
    } else {
      for (const T& one : list) (*this)(one);
    }
  }
  void operator()(const std::string& text) {
    (*this)(text.size());
    bytes_.append(text);
  }

 private:
  std::string& bytes_;
};

class Reading {
 public:
  explicit Reading(Cursor& cursor) : cursor_(cursor) {}

  bool ok() const { return ok_; }

  template <typename... Field>
  void All(Field&... fields) {
    ((*this)(fields), ...);
  }
  template <typename T>
  void operator()(T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      Copy(&value, 1);
    } else {
      Fields(*this, value);
    }
  }
  template <typename A, typename B>
  void operator()(std::pair<A, B>& both) {
    All(both.first, both.second);
  }
  template <typename T>
  void operator()(std::vector<T>& list) {
    list.resize(Count());
    if constexpr (std::is_trivially_copyable_v<T>) {
      Copy(list.data(), list.size());
    } else {
      for (T& one : list) (*this)(one);
    }
  }
  void operator()(std::string& text) {
    text.resize(Count());
    Copy(text.data(), text.size());
  }

 private:
  // Of a list, no part of which has less than a byte.
  size_t Count() {
    size_t n = 0;
    (*this)(n);
    ok_ = ok_ && n <= cursor_.remaining();
    return ok_ ? n : 0;
  }
  template <typename T>
  void Copy(T* to, size_t n) {
    const std::optional<std::string_view> bytes = cursor_.Bytes(n * sizeof(T));
    ok_ = ok_ && bytes.has_value();
    if (ok_ && n > 0) std::memcpy(to, bytes->data(), bytes->size());
  }

  Cursor& cursor_;
  bool ok_ = true;
};

template <typename T>
bool ReadFrom(Cursor& cursor, T* value) {
  Reading reading(cursor);
  reading(*value);
  return reading.ok();
}

}  // namespace

void ResultWriter::Write(int64_t number) { Writing{bytes_}(number); }
void ResultWriter::Write(std::string_view text) { Writing{bytes_}(std::string(text)); }
void ResultWriter::Write(const StepRecord& record) { Writing{bytes_}(record); }
void ResultWriter::Write(const Completion& completion) { Writing{bytes_}(completion); }
std::string ResultWriter::Take() { return std::exchange(bytes_, {}); }

bool ResultReader::Read(int64_t* number) { return ReadFrom(cursor_, number); }
bool ResultReader::Read(std::string* text) { return ReadFrom(cursor_, text); }
bool ResultReader::Read(StepRecord* record) { return ReadFrom(cursor_, record); }
bool ResultReader::Read(Completion* completion) { return ReadFrom(cursor_, completion); }

}  // namespace ng
