// ng-serve in a terminal, which tmux is: its lines, its end, and nothing that a client sends steers
// the terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/chat_terminal.h"
#include "tests/support/http_client.h"

namespace ng::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ServeTerminal : public ChatTerminal {
 protected:
  ServeTerminal() {
    program_ = "ng-serve";
    way_ = {"--port", "0"};
  }

  // Of the server, once it serves.
  int Port() {
    constexpr const char* kBefore = "ng-serve: demo at http://127.0.0.1:";
    const std::string screen = See("tokens each\n");
    const size_t at = screen.find(kBefore);
    EXPECT_NE(at, screen.npos) << screen;
    return at == screen.npos ? 0 : std::atoi(screen.c_str() + at + std::string(kBefore).size());
  }
};

constexpr const char* kAsks =
    R"({"model": "demo", "messages": [{"role": "user", "content": "Who?"}], "max_tokens": 5})";

TEST_F(ServeTerminal, ALineForEachRequestThatSteersNothing) {
  Start();
  const int port = Port();
  EXPECT_EQ(HttpClient(port).Post("/v1/chat/completions", kAsks).status, 200);
  HttpClient(port).Get(
      "/\xC2\x9B"
      "2J\xE2\x80\xAEx");
  HttpClient(port).Get("/%1B[2J");
  HttpClient(port).Get("/\033[2J");
  HttpClient(port).Post("/v1/chat/completions",
                        R"({"model": "\u001b[2J", "messages": [], "\u009b2J": "\u202e"})");
  HttpClient(port).Get("/" + std::string(3000, 'x'));
  const std::string screen = See(", 40", 5);
  EXPECT_THAT(screen, ContainsRegex("\n[0-9:]{8} 127.0.0.1 POST /v1/chat/completions demo, "
                                    "[0-9]+ tokens in, 5 out, [0-9.]+ s, 200\n"));
  EXPECT_THAT(screen, HasSubstr(" GET /<U+009B>2J<U+202E>x, "));
  EXPECT_THAT(screen, ContainsRegex("GET /x{90,99}[.]{3}, "));
  Press({"C-c"});
  See("^C\nexit=0\n");
  ExpectTheTerminalAsBefore();
}

TEST_F(ServeTerminal, LinesMayBeJsonOrNone) {
  Start({"--serve.log=json"});
  HttpClient(Port()).Get(
      "/\xC2\x9B"
      "2J");
  See(R"("path":"/\u009b2J","model":"demo","tokens_in":null)");
  Press({"C-c"});
  See("^C\nexit=0\n");
  Start({"--quiet"});
  EXPECT_EQ(HttpClient(Port()).Post("/v1/chat/completions", kAsks).status, 200);
  Press({"C-c"});
  EXPECT_THAT(See("^C\nexit=0\n"), Not(HasSubstr("POST")));
}

TEST_F(ServeTerminal, TheFirstCtrlCSaysWhatItWaitsForAndTheSecondEndsIt) {
  Start(Slow());
  HttpClient client(Port());
  const std::string body =
      R"({"model":"demo","prompt":"To be","max_tokens":240,"n":64,"stream":true})";
  client.Send(absl::StrCat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ",
                           body.size(), "\r\n\r\n", body));
  ASSERT_TRUE(client.ReceiveUntil("data: "));
  Press({"C-c"});
  See("^C\nng-serve: ends when 1 answer has ended; Ctrl-C again ends it at once\n");
  Press({"C-c"});
  See("\n^C\nexit=130\n");
  ExpectTheTerminalAsBefore();
}

}  // namespace
}  // namespace ng::test
