// A load of clients for an ng-serve that runs: mixed prompts, streamed; some clients leave in the
// middle, some read nothing. Answers to the same request must be equal, whoever else asks.
//
//   serve_load PORT MODEL [CLIENTS=64] [SECONDS=30] [LEAVING=0] [TOOLS]
//
// LEAVING: how many of 100 requests are left in the middle. TOOLS: a file with a list of tools,
// which the model may call: chats are asked for, and not texts; `none`: chats without tools. Exits
// 1 where an answer differs, is not whole, or is refused otherwise than with 429.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/http_client.h"

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr int kHundred = 100;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Load {
  int port = 0;
  std::string model;
  Clock::time_point end;
  int leaving = 0;
  bool chats = false;
  Json tools = nullptr;
};

// What all clients have seen.
struct Seen {
  std::mutex mutex;
  std::map<int, std::string> texts;  // by the request's number
  std::vector<double> first_token_s;
  int64_t tokens = 0;
  int64_t whole = 0;
  int64_t left = 0;
  int64_t busy = 0;
  int64_t wrong = 0;
};

Json RequestOf(const Load& load, int number) {
  Json body = {{"model", load.model},
               {"seed", number},
               {"max_tokens", 16 + number % 48},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  std::string prompt = "Once upon a time";
  for (int i = 0; i < number % 7; ++i) absl::StrAppend(&prompt, ", and then, number ", number);
  if (load.chats) {
    body["messages"] = {{{"role", "user"}, {"content", prompt}}};
    if (!load.tools.is_null()) body["tools"] = load.tools;
  } else {
    body["prompt"] = prompt;
  }
  if (number % 3 == 0) body["temperature"] = 0;
  return body;
}

// What a piece of an answer says.
std::string TextOf(const Json& choice) {
  if (choice.contains("text")) return choice["text"];
  const Json& delta = choice["delta"];
  std::string text;
  if (delta.contains("content") && delta["content"].is_string()) text += delta["content"];
  for (const Json& call : delta.value("tool_calls", Json::array())) {
    text += call["function"].value("name", "") + call["function"].value("arguments", "");
  }
  return text;
}

void Keep(const std::string& body, int number, double first_s, Seen* seen) {
  std::string text;
  int64_t tokens = 0;
  const std::vector<std::string> events = ng::test::Events(body);
  for (const std::string& event : events) {
    if (event == "[DONE]") continue;
    const Json json = Json::parse(event);
    if (json.contains("error")) text += json.dump();
    for (const Json& choice : json.value("choices", Json::array())) {
      text += TextOf(choice);
    }
    if (json.contains("usage") && json["usage"].is_object()) {
      tokens = json["usage"]["completion_tokens"];
    }
  }
  const std::lock_guard lock(seen->mutex);
  const bool ended = !events.empty() && events.back() == "[DONE]";
  const bool same = seen->texts.try_emplace(number, text).first->second == text;
  ++(ended && same ? seen->whole : seen->wrong);
  seen->tokens += tokens;
  seen->first_token_s.push_back(first_s);
}

void Ask(const Load& load, std::minstd_rand& random, Seen* seen) {
  const int number = static_cast<int>(random() % 256);
  const std::string body = RequestOf(load, number).dump();
  ng::test::HttpClient client(load.port);
  const Clock::time_point begin = Clock::now();
  client.Send(absl::StrCat("POST /v1/", load.chats ? "chat/completions" : "completions",
                           " HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", body.size(),
                           "\r\n\r\n", body));
  if (static_cast<int>(random() % kHundred) < load.leaving) {
    // Before the answer, at its first token, or somewhere behind.
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % kHundred));
    if (random() % 2 == 0) client.ReceiveUntil("data: ");
    const std::lock_guard lock(seen->mutex);
    ++seen->left;
    return;
  }
  client.ReceiveUntil("\r\n\r\n");
  client.ReceiveUntil(load.chats ? "\"delta\":{" : "\"text\":\"");
  const double first_s = SecondsSince(begin);
  const ng::test::HttpResponse response = client.Receive();
  if (response.status == 200 && response.whole) return Keep(response.body, number, first_s, seen);
  const std::lock_guard lock(seen->mutex);
  ++(response.status == 429 ? seen->busy : seen->wrong);
}

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  constexpr double kMicro = 1e-6;
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         kMicro * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

int Run(const Load& load, int n_clients) {
  Seen seen;
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> clients;
  for (int i = 0; i < n_clients; ++i) {
    clients.emplace_back([&, i] {
      std::minstd_rand random(static_cast<unsigned>(i) + 1);
      while (Clock::now() < load.end) Ask(load, random, &seen);
    });
  }
  for (std::thread& client : clients) client.join();
  std::vector<double>& first = seen.first_token_s;
  std::ranges::sort(first);
  const auto at = [&](size_t percent) {
    return first.empty() ? 0.0 : first[(first.size() - 1) * percent / kHundred];
  };
  std::printf(
      "%lld answers, %lld tokens, %.1f tok/s; first token p50 %.3f s, p99 %.3f s; left %lld, "
      "429 %lld, wrong %lld; own CPU %.2f s\n",
      static_cast<long long>(seen.whole), static_cast<long long>(seen.tokens),
      static_cast<double>(seen.tokens) / SecondsSince(begin), at(50), at(99),
      static_cast<long long>(seen.left), static_cast<long long>(seen.busy),
      static_cast<long long>(seen.wrong), CpuSeconds());
  return seen.wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: serve_load PORT MODEL [CLIENTS=64] [SECONDS=30] [LEAVING=0] [TOOLS]\n",
               stderr);
    return 2;
  }
  const auto number = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  const std::string tools = argc > 6 ? argv[6] : "";
  Json list = nullptr;
  if (!tools.empty() && tools != "none") {
    std::ifstream file(tools);
    list = Json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!list.is_array()) {
      std::fprintf(stderr, "serve_load: %s is no list of tools\n", tools.c_str());
      return 2;
    }
  }
  return Run({.port = number(1, 0),
              .model = argv[2],
              .end = Clock::now() + std::chrono::seconds(number(4, 30)),
              .leaving = number(5, 0),
              .chats = !tools.empty(),
              .tools = std::move(list)},
             number(3, 64));
}
