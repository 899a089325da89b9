#include "apps/fetch/file_fetch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/fetch/hub/urls.h"

namespace ng::fetch {
namespace {

constexpr size_t kSha1 = 40;
constexpr size_t kSha256 = 64;
constexpr int kNoRange = 416;

// Whether a range is that from `from` to the end of `size` bytes: "bytes 5-9/10".
bool IsRange(std::string_view range, int64_t from, int64_t size) {
  return range == absl::StrCat("bytes ", from, "-", size - 1, "/", size) ||
         range == absl::StrCat("bytes ", from, "-", size - 1, "/*");
}

}  // namespace

std::string ExpectedEtag(const RepoFile& file) {
  return file.sha256.empty() ? file.git_sha1 : file.sha256;
}

bool IsThere(const RepoCache& cache, const std::string& commit, const RepoFile& file) {
  const int64_t size = SizeOfFile(cache.File(commit, file.path));
  return size >= 0 && size == file.size;
}

FileFetch::FileFetch(const FetchContext& context, RepoFile file)
    : context_(context), file_(std::move(file)), patience_(context.tries) {}

int64_t FileFetch::n_bytes() const {
  if (state_ == State::kDone) return std::max<int64_t>(file_.size, 0);
  return partial_ == nullptr ? 0 : partial_->n_bytes();
}

Subject FileFetch::SubjectOf(const std::string& url) const {
  const bool of_hub = OriginOf(url) == context_.settings.origin;
  return {absl::StrCat(context_.repository, ": ", file_.path), HostOf(url),
          of_hub && !context_.settings.token.empty()};
}

absl::StatusOr<bool> FileFetch::Step() {
  absl::Status status;
  switch (state_) {
    case State::kBegin:
      status = Begin();
      break;
    case State::kAsk:
      status = Ask();
      break;
    case State::kLock:
      status = Lock();
      break;
    case State::kHash:
      status = Hash();
      break;
    case State::kGet:
      status = Get();
      break;
    case State::kPause:
      if (Clock::now() >= until_) state_ = after_pause_;
      break;
    case State::kDone:
      break;
  }
  NG_RETURN_IF_ERROR(status);
  return state_ == State::kDone;
}

void FileFetch::Pause(double seconds, State next) {
  constexpr double kMilliseconds = 1000.0;
  until_ = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * kMilliseconds));
  state_ = State::kPause;
  after_pause_ = next;
}

// What other revisions or programs have brought is shown without a question.
absl::Status FileFetch::Begin() {
  if (IsThere(context_.cache, context_.commit, file_)) {
    state_ = State::kDone;
    return absl::OkStatus();
  }
  etag_ = ExpectedEtag(file_);
  if (!etag_.empty() && file_.size >= 0 && SizeOfFile(context_.cache.Blob(etag_)) == file_.size) {
    return Show();
  }
  state_ = State::kAsk;
  return absl::OkStatus();
}

// Asks for the headers, which say how the blob is called and where the bytes are.
absl::Status FileFetch::Ask() {
  if (call_ == nullptr) {
    const HubSettings& settings = context_.settings;
    const std::string url =
        FileUrl(settings.endpoint, context_.repository, context_.commit, file_.path);
    call_ = std::make_unique<Call>(context_.web, settings,
                                   Asked{.url = url, .head = true, .until_linked = true}, nullptr);
  }
  NG_ASSIGN_OR_RETURN(const bool ended, call_->Step());
  if (!ended) return absl::OkStatus();
  const std::unique_ptr<Call> call = std::move(call_);
  const HttpAnswer& answer = call->answer();
  url_ = call->leads_to().empty() ? call->url() : call->leads_to();
  const bool known = answer.cut.empty() && (answer.status == kHttpOk || !call->leads_to().empty());
  if (known) return TakeFacts(answer);
  const absl::Status refusal = RefusalOf(answer, SubjectOf(call->url()));
  // What another host refuses may be an address that is valid for a time.
  const bool passing = IsPassing(answer) || (!call->from_hub() && !answer.hopeless);
  return passing ? TryAgain(answer, std::string(refusal.message())) : refusal;
}

// How the blob is called, and what its bytes must be. Errors: the hub has said otherwise before.
absl::Status FileFetch::TakeHashes(const HttpAnswer& answer) {
  const std::string& header = answer.linked_etag.empty() ? answer.etag : answer.linked_etag;
  if (!header.empty()) {
    NG_ASSIGN_OR_RETURN(etag_, EtagOf(header));
  } else if (etag_.empty()) {
    return ModelFileError("there is no ETag to know it by");
  }
  facts_.sha256 = file_.sha256;
  facts_.git_sha1 = file_.git_sha1;
  if (!answer.commit.empty() && answer.commit != context_.commit) {
    return ModelFileError(
        absl::StrCat("is of commit ", answer.commit, ", asked for: ", context_.commit));
  }
  if (!facts_.sha256.empty() && IsHex(etag_, kSha256) && etag_ != facts_.sha256) {
    return ModelFileError(
        absl::StrCat("has two hashes, ", facts_.sha256, " in the list and ", etag_));
  }
  if (!facts_.sha256.empty() || !facts_.git_sha1.empty()) return absl::OkStatus();
  if (IsHex(etag_, kSha256)) facts_.sha256 = etag_;
  if (IsHex(etag_, kSha1)) facts_.git_sha1 = etag_;
  if (facts_.sha256.empty() && facts_.git_sha1.empty()) {
    context_.tell(absl::StrCat(file_.path,
                               ": the hub gives no hash of it, so that its size alone "
                               "is checked"));
  }
  return absl::OkStatus();
}

absl::Status FileFetch::TakeFacts(const HttpAnswer& answer) {
  const std::string name = absl::StrCat(SubjectOf(url_).name, ": ");
  const absl::Status hashes = TakeHashes(answer);
  if (!hashes.ok()) return Annotate(hashes, name);
  const int64_t length = answer.status == kHttpOk ? answer.length : -1;
  const int64_t said = answer.linked_size >= 0 ? answer.linked_size : length;
  if (file_.size >= 0 && said >= 0 && said != file_.size) {
    return ModelFileError(
        absl::StrCat(name, "has two sizes, ", file_.size, " in the list and ", said));
  }
  facts_.size = std::max(file_.size, said);
  if (facts_.size < 0) return ModelFileError(name + "the hub does not say how large it is");
  state_ = partial_ == nullptr ? State::kLock : State::kHash;
  return absl::OkStatus();
}

absl::Status FileFetch::Lock() {
  constexpr double kLookAgain = 0.1;  // seconds
  NG_RETURN_IF_ERROR(context_.cache.MakeFolders());
  NG_ASSIGN_OR_RETURN(lock_, BlobLock::Try(context_.cache.Lock(etag_)));
  if (lock_ == nullptr) {
    if (!std::exchange(told_waiting_, true)) {
      context_.tell(absl::StrCat(file_.path, ": waits for another program that fetches it"));
    }
    Pause(kLookAgain, State::kLock);
    return absl::OkStatus();
  }
  if (SizeOfFile(context_.cache.Blob(etag_)) == facts_.size) return Show();
  NG_ASSIGN_OR_RETURN(partial_, PartialBlob::Open(context_.cache.Partial(etag_), facts_));
  state_ = State::kHash;
  return absl::OkStatus();
}

absl::Status FileFetch::Hash() {
  if (!partial_->is_hashed()) return partial_->HashMore();
  if (partial_->is_whole()) return Finish();
  state_ = State::kGet;
  return absl::OkStatus();
}

absl::Status FileFetch::Get() {
  if (call_ == nullptr) {
    if (from_start_) NG_RETURN_IF_ERROR(partial_->Clear());
    from_ = partial_->n_bytes();
    began_ = false;
    call_ =
        std::make_unique<Call>(context_.web, context_.settings, Asked{.url = url_, .from = from_},
                               [this](const HttpAnswer& answer, std::string_view bytes) {
                                 return TakeBody(answer, bytes);
                               });
  }
  NG_ASSIGN_OR_RETURN(const bool ended, call_->Step());
  if (!ended) return absl::OkStatus();
  const std::unique_ptr<Call> call = std::move(call_);
  url_ = call->url();
  return TakeEnd(call->answer());
}

absl::Status FileFetch::TakeBody(const HttpAnswer& answer, std::string_view bytes) {
  if (!std::exchange(began_, true)) {
    if (answer.status == kHttpOk && from_ > 0) NG_RETURN_IF_ERROR(partial_->Clear());
    if (answer.status == kHttpPartial && !IsRange(answer.content_range, from_, facts_.size)) {
      from_start_ = true;
      return RuntimeError(absl::StrCat("Content-Range = ", answer.content_range,
                                       ", asked for the bytes from ", from_, " on"));
    }
  }
  NG_RETURN_IF_ERROR(partial_->Append(bytes));
  n_came_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::Status FileFetch::TakeEnd(const HttpAnswer& answer) {
  const Subject subject = SubjectOf(url_);
  const std::string name = absl::StrCat(subject.name, ": ");
  if (absl::IsInternal(answer.refused)) {
    return TryAgain(answer, std::string(answer.refused.message()));
  }
  if (!answer.refused.ok()) {
    const bool too_many = absl::IsDataLoss(answer.refused);
    if (too_many) NG_RETURN_IF_ERROR(partial_->Clear());
    return too_many ? Annotate(answer.refused, name) : answer.refused;
  }
  const bool came = answer.status == kHttpOk || answer.status == kHttpPartial;
  if (came && partial_->is_whole()) return Finish();
  if (answer.status == kNoRange) from_start_ = true;
  if (came && answer.cut.empty()) {
    return TryAgain(answer, absl::StrCat(name, subject.host, " gives ", partial_->n_bytes(),
                                         " of its ", facts_.size, " bytes"));
  }
  const absl::Status refusal = RefusalOf(answer, subject);
  const bool of_hub = OriginOf(url_) == context_.settings.origin;
  const bool passing =
      answer.status == kNoRange || IsPassing(answer) || (!of_hub && !answer.hopeless);
  return passing ? TryAgain(answer, std::string(refusal.message())) : refusal;
}

absl::Status FileFetch::Finish() {
  const std::string blob = context_.cache.Blob(etag_);
  NG_ASSIGN_OR_RETURN(const std::optional<std::string> wrong, partial_->MoveTo(blob));
  if (!wrong) return Show();
  const std::string what = absl::StrCat(SubjectOf(url_).name, ": ", *wrong);
  // What was there before may have been wrong; what has come from the first byte on is the hub's.
  if (std::exchange(was_wrong_, true)) return ModelFileError(what + "; it is not kept");
  context_.tell(what + "; it is fetched again");
  state_ = State::kAsk;
  return absl::OkStatus();
}

absl::Status FileFetch::Show() {
  NG_RETURN_IF_ERROR(context_.cache.Link(context_.commit, file_.path, etag_));
  partial_.reset();
  lock_.reset();
  state_ = State::kDone;
  return absl::OkStatus();
}

absl::Status FileFetch::TryAgain(const HttpAnswer& answer, const std::string& why) {
  const double seconds = patience_.AfterFailure(answer.retry_after_s, n_came_);
  if (seconds < 0.0) return RuntimeError(why);
  context_.tell(absl::StrFormat("%s; again in %.2g s", why, seconds));
  Pause(seconds, State::kAsk);
  return absl::OkStatus();
}

}  // namespace ng::fetch
