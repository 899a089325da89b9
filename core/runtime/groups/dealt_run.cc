#include "core/runtime/groups/dealt_run.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/groups/ordered_results.h"
#include "core/runtime/groups/result_bytes.h"
#include "core/runtime/loop/caught.h"
#include "core/runtime/loop/generate_loop.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

// How often those that wait hear that the others are there; far less than any deadline.
constexpr std::chrono::milliseconds kHeartbeat(20);
constexpr std::chrono::microseconds kNap(200);

// What rank 0 tells a leader, and a leader its group.
struct Order {
  int32_t first = 0;  // requests from here on
  int32_t n = 0;      // so many of them; 0: go on. With `ends`: the code of what it ends with
  bool ends = false;

  static Order End(const absl::Status& status) { return {0, status.raw_code(), true}; }
  static Order Of(uint64_t number) {
    return {static_cast<int32_t>(number >> 32U), static_cast<int32_t>(number >> 1U & 0x7FFFFFFFU),
            (number & 1U) != 0};
  }
  uint64_t number() const {
    return static_cast<uint64_t>(first) << 32U | static_cast<uint64_t>(n) << 1U |
           static_cast<uint64_t>(ends);
  }
  // Of an order that ends: as what.
  absl::Status status() const {
    if (n == 0) return absl::OkStatus();
    return ToldElsewhere({static_cast<absl::StatusCode>(n), "another group has failed"});
  }
};

// What a leader tells rank 0, in front of its numbers and records.
enum class News : int64_t { kHere, kStep, kDone, kRoom, kEnd };

bool Failed(const absl::Status& status) { return !status.ok() && !absl::IsCancelled(status); }

class DealtRun {
 public:
  DealtRun(const GenerateParts& parts, const GenerateSettings& settings,
           std::span<const GenerateRequest> requests, const GenerateOptions& options,
           const RankGroups& groups)
      : settings_(settings),
        requests_(requests),
        ranks_(groups.ranks),
        group_(groups.group),
        group_size_(ranks_.split().ranks / groups.n),
        completions_(requests.size()),
        results_(requests.size(), options),
        ended_(static_cast<size_t>(groups.n), false),
        own_options_(OwnOptions(options)),
        loop_(parts, settings, own_options_) {}

  absl::StatusOr<std::vector<Completion>> Run() {
    absl::Status status = Caught([&] { return TakeTurns(); });
    status = Worst(status, Caught([&] { return loop_.End(EndOf(status)); }));
    if (group_ != nullptr) {
      const absl::Status agreed = group_->Agree(Failed(status) ? status : absl::OkStatus());
      if (!agreed.ok()) status = agreed;
    }
    if (first()) status = Caught([&] { return EndAll(status); });
    if (leads() && !first()) status = Caught([&] { return Leave(status); });
    if (Failed(status)) {
      ranks_.End(status);
      return status;
    }
    if (first()) return results_.TakeCompletions();
    std::vector<Completion> ends(requests_.size());
    for (Completion& end : ends) end.stop_reason = EndOf(status);
    return ends;
  }

 private:
  bool first() const { return ranks_.split().rank == 0; }
  bool leads() const { return ranks_.split().rank % group_size_ == 0; }
  bool Stopped() const {
    return settings_.stop != nullptr && settings_.stop->load(std::memory_order_relaxed);
  }
  static StopReason EndOf(const absl::Status& status) {
    return status.ok()      ? StopReason::kMaxNewTokens
           : Failed(status) ? StopReason::kError
                            : StopReason::kInterrupted;
  }
  // An error before an interruption, and the first of two.
  static absl::Status Worst(const absl::Status& one, const absl::Status& other) {
    return Failed(one) || (!one.ok() && !Failed(other)) ? one : other;
  }

  // The options of this rank's loop: what it computes is the same, what it tells goes to rank 0.
  GenerateOptions OwnOptions(const GenerateOptions& options) {
    GenerateOptions own = options;
    own.on_step = [this](int index, const StepRecord& record) {
      if (first()) return results_.OnStep(static_cast<size_t>(index), record);
      if (leads()) Write(News::kStep, index, record);
      return absl::OkStatus();
    };
    own.on_done = [this](int index, const Completion& completion) {
      if (first()) return results_.OnDone(static_cast<size_t>(index), completion);
      if (leads()) Write(News::kDone, index, completion);
      return absl::OkStatus();
    };
    return own;
  }
  template <typename... Record>
  void Write(News news, int64_t number, const Record&... record) {
    news_.Write(static_cast<int64_t>(news));
    news_.Write(number);
    (news_.Write(record), ...);
  }

  // Steps, until an order or an error ends them.
  absl::Status TakeTurns() {
    for (;;) {
      ranks_.CountStep();
      NG_ASSIGN_OR_RETURN(const Order order, NextOrder());
      if (order.ends) return order.status();
      for (int i = order.first; i < order.first + order.n; ++i) Add(static_cast<size_t>(i));
      NG_RETURN_IF_ERROR(loop_.Advance().status());
      if (Stopped()) return InterruptedError("interrupted");
    }
  }
  void Add(size_t index) {
    loop_.Add({static_cast<int>(index), &requests_[index], &completions_[index]});
  }
  // As many requests as the batch has room for.
  int64_t Room() const {
    return loop_.n_waiting() > 0 ? 0 : settings_.max_sequences - loop_.n_active();
  }

  absl::StatusOr<Order> NextOrder() {
    Order order;
    if (leads()) {
      NG_ASSIGN_OR_RETURN(order, first() ? Deal() : Ask());
    }
    if (group_ == nullptr) return order;
    NG_ASSIGN_OR_RETURN(const uint64_t number, group_->Announce(order.number()));
    return Order::Of(number);
  }

  // Tries until there is something to do, or the next heartbeat is due.
  template <typename Try>
  absl::StatusOr<Order> Await(Try&& find) {
    const Clock::time_point begin = Clock::now();
    for (;;) {
      NG_ASSIGN_OR_RETURN(const Order order, find());
      if (order.ends || order.n > 0 || !loop_.idle()) return order;
      if (Stopped() && group_ == nullptr) return InterruptedError("interrupted");
      if (Clock::now() - begin > kHeartbeat) return order;
      std::this_thread::sleep_for(kNap);
    }
  }
  bool HeartbeatIsDue() const { return Clock::now() - told_ > kHeartbeat; }

  // Rank 0: hears the leaders, and takes the next requests for its own group.
  absl::StatusOr<Order> Deal() {
    return Await([&]() -> absl::StatusOr<Order> {
      for (int leader = 1; leader < n_groups(); ++leader) NG_RETURN_IF_ERROR(Hear(leader));
      if (stopped_elsewhere_) return Order::End(InterruptedError(""));
      if (results_.all_done()) return Order::End(absl::OkStatus());
      if (HeartbeatIsDue()) NG_RETURN_IF_ERROR(TellLeaders({}));
      return Next(Room());
    });
  }
  int n_groups() const { return static_cast<int>(ended_.size()); }
  Order Next(int64_t room) {
    const int64_t n = std::min(room, std::ssize(requests_) - next_);
    const Order order = {static_cast<int32_t>(next_), static_cast<int32_t>(n)};
    next_ += n;
    return order;
  }
  absl::Status Tell(int rank, const Order& order) {
    ResultWriter text;
    text.Write(static_cast<int64_t>(order.number()));
    return ranks_.Send(rank, text.Take());
  }
  absl::Status TellLeaders(const Order& order) {
    told_ = Clock::now();
    absl::Status status;
    for (int group = 1; group < n_groups(); ++group) {
      // One that has ended by itself waits to hear that it may leave.
      const bool waits = order.ends || !ended_[static_cast<size_t>(group)];
      if (waits) status.Update(Tell(group * group_size_, order));
    }
    return status;
  }
  // All that the leader of a group has sent. Errors: the leader's own, too.
  absl::Status Hear(int group) {
    const int leader = group * group_size_;
    while (!ended_[static_cast<size_t>(group)]) {
      const absl::StatusOr<std::string> text = ranks_.Receive(leader);
      if (!text.ok()) ended_[static_cast<size_t>(group)] = true;
      NG_RETURN_IF_ERROR(text.status());
      if (text->empty()) break;
      for (ResultReader news(*text); !news.at_end();) NG_RETURN_IF_ERROR(Read(group, news));
    }
    return absl::OkStatus();
  }
  absl::Status Read(int group, ResultReader& news) {
    const int leader = group * group_size_;
    int64_t kind = 0;
    int64_t number = 0;
    bool whole = news.Read(&kind) && news.Read(&number);
    const auto index = static_cast<size_t>(number);
    StepRecord record;
    Completion completion;
    std::string message;
    switch (static_cast<News>(kind)) {
      case News::kHere:
        break;
      case News::kStep:
        whole = whole && index < requests_.size() && news.Read(&record);
        if (whole) return results_.OnStep(index, record);
        break;
      case News::kDone:
        whole = whole && index < requests_.size() && news.Read(&completion);
        if (whole) return results_.OnDone(index, std::move(completion));
        break;
      case News::kRoom: {
        const Order order = Next(number);
        if (order.n > 0) return Tell(leader, order);
        break;
      }
      case News::kEnd:
        whole = whole && news.Read(&message);
        ended_[static_cast<size_t>(group)] = true;
        stopped_elsewhere_ |= absl::IsCancelled({static_cast<absl::StatusCode>(number), ""});
        if (whole && !message.empty()) return {static_cast<absl::StatusCode>(number), message};
        break;
    }
    return whole ? absl::OkStatus()
                 : RuntimeError(absl::StrCat(ranks_.Name(leader), " sent half a result"));
  }
  // Rank 0 at the end: all groups end as this one has, and what they have not done is reported.
  absl::Status EndAll(absl::Status status) {
    absl::Status told = TellLeaders(Order::End(status));
    for (bool all = false; !all; std::this_thread::sleep_for(kNap)) {
      all = true;
      for (int group = 1; group < n_groups(); ++group) {
        status = Worst(status, Hear(group));
        all = all && ended_[static_cast<size_t>(group)];
      }
    }
    status = Worst(status, told);
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (!results_.IsDone(i)) Add(i);
    }
    return Worst(status, loop_.End(EndOf(status)));
  }

  // A leader: tells rank 0 what there is, and hears what to do.
  absl::StatusOr<Order> Ask() {
    return Await([&]() -> absl::StatusOr<Order> {
      const int64_t room = Room();
      if (!asked_ && room > 0) Write(News::kRoom, room);
      asked_ = asked_ || room > 0;
      if (news_.empty() && HeartbeatIsDue()) Write(News::kHere, 0);
      NG_RETURN_IF_ERROR(TellFirst());
      for (;;) {
        const absl::StatusOr<std::string> text = ranks_.Receive(0);
        first_is_lost_ = !text.ok();
        NG_RETURN_IF_ERROR(text.status());
        if (text->empty()) return Order();
        int64_t number = 0;
        ResultReader reader(*text);
        if (!reader.Read(&number) || !reader.at_end()) {
          return RuntimeError(absl::StrCat(ranks_.Name(0), " sent no order"));
        }
        const Order order = Order::Of(static_cast<uint64_t>(number));
        told_to_end_ = order.ends;
        if (order.n > 0) asked_ = false;
        if (order.ends || order.n > 0) return order;
      }
    });
  }
  absl::Status TellFirst() {
    if (news_.empty()) return absl::OkStatus();
    told_ = Clock::now();
    return ranks_.Send(0, news_.Take());
  }
  // A leader at the end: rank 0 tells what this group has found, when all have ended.
  absl::Status Leave(const absl::Status& status) {
    if (first_is_lost_) return status;
    const std::string message(status.message());
    const bool named = message.starts_with("rank ");  // where it was found
    const std::string name = named ? "" : ranks_.Name(ranks_.split().rank) + ": ";
    Write(News::kEnd, status.raw_code(), Failed(status) ? name + message : std::string());
    absl::Status heard = TellFirst();
    while (heard.ok() && !told_to_end_) {
      std::this_thread::sleep_for(kNap);
      heard = Ask().status();
    }
    if (!heard.ok() && !IsToldElsewhere(status)) return heard;
    return ToldElsewhere(status);
  }

  const GenerateSettings& settings_;
  const std::span<const GenerateRequest> requests_;
  RankLink& ranks_;
  RankLink* const group_;
  const int group_size_;
  std::vector<Completion> completions_;  // the loop's
  Clock::time_point told_ = {};          // when this rank last told others that it is there

  // Rank 0.
  OrderedResults results_;
  std::vector<bool> ended_;  // [groups]: nothing more comes from there
  int64_t next_ = 0;         // the request that is dealt next
  bool stopped_elsewhere_ = false;

  // A leader of another group.
  ResultWriter news_;
  bool asked_ = false;  // for requests; the answer has not come
  bool told_to_end_ = false;
  bool first_is_lost_ = false;  // rank 0: nobody hears anything

  const GenerateOptions own_options_;
  GenerateLoop loop_;
};

absl::Status CheckLooked(const GenerateOptions& options) {
  const std::pair<const char*, bool> callbacks[] = {
      {"on_attn_rows", options.on_attn_rows != nullptr},
      {"on_point", options.on_point != nullptr},
      {"next_token", options.next_token != nullptr},
      {"on_cache_debug", options.on_cache_debug != nullptr},
      {"on_left", options.on_left != nullptr},
      {"on_prompt", options.on_prompt != nullptr},
      {"on_failed", options.on_failed != nullptr}};
  for (const auto& [name, given] : callbacks) {
    if (!given) continue;
    return UsageError(absl::StrCat(
        name, " looks into the steps of one group of ranks; fabric.groups = 1 has one"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Completion>> GenerateDealt(const GenerateParts& parts,
                                                      const GenerateSettings& settings,
                                                      std::span<const GenerateRequest> requests,
                                                      const GenerateOptions& options,
                                                      const RankGroups& groups) {
  NG_RETURN_IF_ERROR(CheckLooked(options));
  return DealtRun(parts, settings, requests, options, groups).Run();
}

}  // namespace ng
