// The HTTP server by itself: what connections may do, and what is done to those that do it wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/serve/http/server.h"
#include "tests/support/http_client.h"

namespace ng::serve {
namespace {

using test::HttpClient;
using test::HttpResponse;
using ::testing::HasSubstr;

// A server whose handler answers with the method, the path and the body, unless it is another one.
class Running {
 public:
  explicit Running(HttpLimits limits = Limits(), HttpServer::Handler handler = Echo)
      : server_(*HttpServer::Listen("127.0.0.1", 0, limits)),
        thread_([this, handler = std::move(handler)] { server_->Run(handler, Refusal); }) {}
  ~Running() {
    server_->Post([this] { server_->Stop(); });
    thread_.join();
  }

  static HttpLimits Limits() {
    using std::chrono::seconds;
    return {.max_body_bytes = 1000,
            .max_connections = 20,
            .read = seconds(20),
            .write = seconds(20),
            .idle = seconds(20)};
  }
  static void Echo(const std::shared_ptr<Exchange>& exchange) {
    const HttpRequest& request = exchange->request();
    exchange->Reply({.content_type = "text/plain",
                     .body = absl::StrCat(request.method, " ", request.path, " ", request.body)});
  }
  static HttpReply Refusal(int status, const std::string& message, const std::string& /*path*/) {
    return {.status = status, .body = message};
  }

  int port() const { return server_->port(); }
  HttpServer& server() { return *server_; }
  HttpCounts Counts() {
    std::promise<HttpCounts> counts;
    server_->Post([&] { counts.set_value(server_->counts()); });
    return counts.get_future().get();
  }
  // Waits until the condition holds.
  template <typename Condition>
  bool Comes(Condition condition) {
    for (int i = 0; i < 1000; ++i) {
      if (condition(Counts())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

HttpLimits With(void (*change)(HttpLimits*)) {
  HttpLimits limits = Running::Limits();
  change(&limits);
  return limits;
}

TEST(HttpServer, AnswersOneRequestAfterTheOtherOnAConnection) {
  Running running;
  HttpClient client(running.port());
  EXPECT_EQ(client.Post("/a?b=c", "one").body, "POST /a one");
  EXPECT_EQ(client.Get("/d").body, "GET /d ");
  // Two at once, the second in pieces.
  client.Send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nPOST /2 HTTP/1.1\r\nHost: x\r\nContent-Le");
  EXPECT_EQ(client.Receive().body, "GET /1 ");
  client.Send("ngth: 3\r\n\r\nab");
  client.Send("c");
  EXPECT_EQ(client.Receive().body, "POST /2 abc");
  EXPECT_EQ(running.Counts().accepted, 1);
}

TEST(HttpServer, TakesBodiesInChunksAndThoseThatWaitForLeave) {
  Running running;
  HttpClient client(running.port());
  client.Send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  client.Send("2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(client.Receive().body, "POST / abcde");
  client.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_TRUE(client.ReceiveUntil("100 Continue"));
  client.Send("ab");
  EXPECT_EQ(client.Receive().body, "POST / ab");
}

TEST(HttpServer, ClosesWhereTheClientAsksForThat) {
  Running running;
  HttpClient client(running.port());
  EXPECT_EQ(client.Get("/", "Connection: close\r\n").headers["connection"], "close");
  EXPECT_TRUE(client.Ends());
  HttpClient old(running.port());
  old.Send("GET /old HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.Receive().body, "GET /old ");
  EXPECT_TRUE(old.Ends());
}

TEST(HttpServer, RefusesWhatIsTooLongOrNoHttp) {
  Running running;
  HttpClient body(running.port());
  body.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_EQ(body.Receive().status, 413);
  HttpClient sent(running.port());
  sent.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n" +
            std::string(10000000, 'x'));
  const HttpResponse refused = sent.Receive();
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.body, HasSubstr("serve.max_body_bytes = 1000"));
  HttpClient chunks(running.port());
  chunks.Send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n600\r\n" +
              std::string(1536, 'x'));
  EXPECT_EQ(chunks.Receive().status, 413);
  HttpClient headers(running.port());
  EXPECT_EQ(headers.Get("/", "X: " + std::string(20000, 'x') + "\r\n").status, 431);
  HttpClient other(running.port());
  other.Send("\x16\x03\x01 hello\r\n\r\n");
  EXPECT_EQ(other.Receive().status, 400);
  EXPECT_TRUE(other.Ends());
  EXPECT_EQ(HttpClient(running.port()).Get("/still").body, "GET /still ");
}

TEST(HttpServer, ClosesWhatDoesNotComeWholeInTimeAndWhatIsIdle) {
  Running running(With([](HttpLimits* limits) {
    limits->read = std::chrono::seconds(1);
    limits->idle = std::chrono::seconds(1);
  }));
  HttpClient half(running.port());
  HttpClient idle(running.port());
  half.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_EQ(half.Receive().status, 408);
  EXPECT_TRUE(half.Ends());
  EXPECT_TRUE(idle.Ends());
}

TEST(HttpServer, MakesRoomByTheLongestIdleConnection) {
  Running running(With([](HttpLimits* limits) { limits->max_connections = 2; }));
  HttpClient first(running.port());
  EXPECT_EQ(first.Get("/1").status, 200);
  HttpClient second(running.port());
  EXPECT_EQ(second.Get("/2").status, 200);
  EXPECT_EQ(first.Get("/1").status, 200);  // now the other one waits longer
  HttpClient third(running.port());
  EXPECT_EQ(third.Get("/3").status, 200);
  EXPECT_TRUE(second.Ends());
  EXPECT_EQ(first.Get("/1").status, 200);
}

TEST(HttpServer, RefusesConnectionsWhileAllAreBusy) {
  std::vector<std::shared_ptr<Exchange>> kept;
  std::atomic<int> n_kept = 0;
  Running running(With([](HttpLimits* limits) { limits->max_connections = 1; }),
                  [&](const std::shared_ptr<Exchange>& exchange) {
                    kept.push_back(exchange);
                    ++n_kept;
                  });
  HttpClient busy(running.port());
  busy.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(running.Comes([&](const HttpCounts&) { return n_kept == 1; }));
  EXPECT_TRUE(HttpClient(running.port()).Ends());
  EXPECT_EQ(running.Counts().refused, 1);
  running.server().Post([&] { Running::Echo(kept[0]); });
  EXPECT_EQ(busy.Receive().status, 200);
}

TEST(HttpServer, StreamsInChunksAndToOldClientsUntilTheEnd) {
  Running running(Running::Limits(), [](const std::shared_ptr<Exchange>& exchange) {
    exchange->BeginStream("text/event-stream");
    exchange->Write("data: 1\n\n");
    exchange->Write("data: 2\n\n");
    exchange->EndStream();
    exchange->Write("too late");
  });
  HttpClient client(running.port());
  for (int i = 0; i < 2; ++i) {
    const HttpResponse response = client.Get("/");
    EXPECT_TRUE(response.whole);
    EXPECT_THAT(test::Events(response.body), testing::ElementsAre("1", "2"));
  }
  HttpClient old(running.port());
  old.Send("GET / HTTP/1.0\r\nHost: x\r\n\r\n");
  EXPECT_THAT(test::Events(old.Receive().body), testing::ElementsAre("1", "2"));
}

TEST(HttpServer, SaysWhenAClientIsGone) {
  std::atomic<int> n_asked = 0;
  std::atomic<int> n_gone = 0;
  std::vector<std::shared_ptr<Exchange>> kept;
  Running running(Running::Limits(), [&](const std::shared_ptr<Exchange>& exchange) {
    kept.push_back(exchange);
    exchange->OnGone([&] { ++n_gone; });
    if (exchange->request().path == "/stream") exchange->BeginStream("text/event-stream");
    ++n_asked;
  });
  {
    HttpClient client(running.port());
    HttpClient streamed(running.port());
    client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    streamed.Send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(running.Comes([&](const HttpCounts&) { return n_asked == 2; }));
  }
  EXPECT_TRUE(running.Comes([&](const HttpCounts& counts) { return counts.gone == 2; }));
  EXPECT_EQ(n_gone, 2);
  // What comes too late is dropped, and who asks too late is told at once.
  running.server().Post([&] {
    kept[0]->Reply({});
    kept[1]->Write("x");
    kept[0]->OnGone([&] { ++n_gone; });
  });
  EXPECT_TRUE(running.Comes([&](const HttpCounts&) { return n_gone == 3; }));
}

TEST(HttpServer, LeavesAClientThatDoesNotRead) {
  std::atomic<bool> gone = false;
  Running running(With([](HttpLimits* limits) { limits->write = std::chrono::seconds(1); }),
                  [&](const std::shared_ptr<Exchange>& exchange) {
                    exchange->OnGone([&] { gone = true; });
                    if (exchange->request().path == "/whole") {
                      return exchange->Reply({.body = std::string(size_t{32} << 20, 'x')});
                    }
                    exchange->BeginStream("text/event-stream");
                    for (int i = 0; i < 32 && !gone; ++i) {
                      exchange->Write(std::string(size_t{1} << 20, 'x'));
                    }
                  });
  HttpClient stream(running.port());
  stream.Send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(running.Comes([&](const HttpCounts&) { return gone.load(); }));
  HttpClient whole(running.port());
  whole.Send("GET /whole HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(running.Comes([](const HttpCounts& counts) { return counts.slow_readers == 2; }));
  EXPECT_EQ(running.Counts().connections, 0);
}

TEST(HttpServer, AnswersWhatAHandlerThrows) {
  Running running(Running::Limits(), [](const std::shared_ptr<Exchange>&) {
    throw std::runtime_error("no such thing");
  });
  HttpClient client(running.port());
  const HttpResponse response = client.Get("/");
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.body, "no such thing");
}

TEST(HttpServer, DrainsWhatIsAskedAndClosesWhatIsIdle) {
  std::shared_ptr<Exchange> kept;
  auto server = *HttpServer::Listen("127.0.0.1", 0, Running::Limits());
  std::thread thread([&] {
    server->Run([&](const std::shared_ptr<Exchange>& exchange) { kept = exchange; },
                Running::Refusal);
  });
  HttpClient idle(server->port());
  HttpClient asks(server->port());
  asks.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  for (bool asked = false; !asked;) {
    std::promise<bool> there;
    server->Post([&] { there.set_value(kept != nullptr); });
    asked = there.get_future().get();
  }
  server->Post([&] { server->Drain(); });
  EXPECT_TRUE(idle.Ends());
  server->Post([&] { Running::Echo(kept); });
  const HttpResponse response = asks.Receive();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("connection"), "close");
  asks.Close();
  thread.join();
}

TEST(HttpServer, AnswersHeadWithoutABody) {
  Running running;
  HttpClient client(running.port());
  client.Send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(client.ReceiveUntil("Content-Length: 8\r\n\r\nHTTP/1.1 200 OK"));
  ASSERT_TRUE(client.ReceiveUntil("GET /b "));
}

TEST(HttpServer, ReadsTargetsOfEveryForm) {
  const auto echo = [](const std::shared_ptr<Exchange>& exchange) {
    const HttpRequest& request = exchange->request();
    exchange->Reply({.body = absl::StrCat(request.host, " ", request.path)});
  };
  Running running(Running::Limits(), echo);
  HttpClient client(running.port());
  const auto told = [&](const std::string& target) { return client.Get(target).body; };
  EXPECT_EQ(told("/v1/models/my%20model?x=%zz"), "localhost /v1/models/my model");
  EXPECT_EQ(told("/%c3%A9%2f%3F"), "localhost /\xC3\xA9/?");
  EXPECT_EQ(told("http://box:80/a%20b?c"), "box:80 /a b");
  EXPECT_EQ(told("HTTPS://box"), "box /");
  EXPECT_EQ(told("http://box?c"), "box /");
  for (const char* const wrong : {"/%", "/%2", "/a%g0", "/%+1", "/% 1"}) {
    HttpClient other(running.port());
    EXPECT_EQ(other.Get(wrong).status, 400) << wrong;
  }
}

// printf abcabcabcabc | gzip -n
constexpr std::string_view kGzip(
    "\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x4c\x4a\x4e\x84\x21\0\x34\x2a\x6e\x5a\x0c\0\0\0", 25);

TEST(HttpServer, UnpacksBodiesUpToTheirLimit) {
  Running running(With([](HttpLimits* limits) { limits->max_body_bytes = 30; }));
  HttpClient client(running.port());
  const auto post = [&](const std::string& body, const std::string& coding) {
    return client.Post("/", body, absl::StrCat("Content-Encoding: ", coding, "\r\n"));
  };
  const std::string gzip(kGzip);
  EXPECT_EQ(post(gzip, "gzip").body, "POST / abcabcabcabc");
  EXPECT_EQ(post(gzip, "X-GZIP").body, "POST / abcabcabcabc");
  EXPECT_EQ(post("abc", "identity").body, "POST / abc");
  for (size_t n = 0; n < gzip.size(); ++n) {
    EXPECT_EQ(post(gzip.substr(0, n), "gzip").status, 400) << n;
  }
  for (const char* const coding : {"br", "deflate", "gzip, gzip", "zstd"}) {
    EXPECT_EQ(post(gzip, coding).status, 415) << coding;
  }
  Running small(With([](HttpLimits* limits) { limits->max_body_bytes = 1000; }));
  std::string many;
  for (int i = 0; i < 30; ++i) many += gzip;  // 360 bytes in 750
  HttpClient other(small.port());
  EXPECT_EQ(other.Post("/", many, "Content-Encoding: gzip\r\n").body.size(), 7U + 360U);
}

TEST(HttpServer, CallsAfterATimeUnlessItIsLetGo) {
  Running running;
  std::atomic<int> n_called = 0;
  std::shared_ptr<void> kept;
  running.server().Post([&] {
    kept = running.server().After(std::chrono::milliseconds(1), [&] { ++n_called; });
    running.server().After(std::chrono::milliseconds(1), [&] { n_called += 100; });
  });
  EXPECT_TRUE(running.Comes([&](const HttpCounts&) { return n_called > 0; }));
  EXPECT_EQ(n_called, 1);
}

TEST(HttpServer, SaysWhyItCannotListen) {
  Running running;
  const auto taken = HttpServer::Listen("127.0.0.1", running.port(), Running::Limits());
  EXPECT_EQ(ExitCode(taken.status()), 1);
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr("Address already in use"));
}

}  // namespace
}  // namespace ng::serve
