#include "apps/serve/http/server.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/serve/http/connection.h"

namespace ng::serve {
namespace {

using tcp = boost::asio::ip::tcp;

// Before connections are taken again when the process may open no more files.
constexpr std::chrono::milliseconds kAcceptPause(100);

struct Timer {
  boost::asio::steady_timer timer;
};

}  // namespace

struct HttpServer::Parts {
  explicit Parts(const HttpLimits& limits) : connections{.limits = limits} {}

  void Accept();
  void OnAccepted(tcp::socket socket);
  void EndIfDrained() {
    if (connections.draining && connections.open.empty()) io.stop();
  }

  Connections connections;
  // Behind what its handlers use.
  boost::asio::io_context io{1};
  tcp::acceptor acceptor{io};
  int port = 0;
  boost::asio::steady_timer pause{io};
  std::vector<boost::asio::posix::stream_descriptor> watched;
};

void HttpServer::Parts::Accept() {
  acceptor.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (!error) {
      OnAccepted(std::move(socket));
      return Accept();
    }
    pause.expires_after(kAcceptPause);
    pause.async_wait([this](const boost::system::error_code& ended) {
      if (!ended && acceptor.is_open()) Accept();
    });
  });
}

void HttpServer::Parts::OnAccepted(tcp::socket socket) {
  ++connections.counts.accepted;
  if (connections.counts.connections >= connections.limits.max_connections) {
    if (connections.idle.empty()) {
      ++connections.counts.refused;
      return;  // closed by its destructor
    }
    connections.idle.front()->Close();
  }
  ++connections.counts.connections;
  const auto connection = std::make_shared<Connection>(std::move(socket), connections);
  connections.open.insert(connection);
  connection->Start();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(const std::string& address, int port,
                                                               const HttpLimits& limits) {
  auto parts = std::make_unique<Parts>(limits);
  const auto fail = [&](const boost::system::error_code& error) {
    return RuntimeError(absl::StrCat("cannot listen on serve.host = ", address,
                                     ", serve.port = ", port, ": ", error.message()));
  };
  boost::system::error_code error;
  const auto ip = boost::asio::ip::make_address(address, error);
  if (error) return fail(error);
  const tcp::endpoint endpoint(ip, static_cast<uint16_t>(port));
  tcp::acceptor& acceptor = parts->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(boost::asio::socket_base::max_listen_connections, error);
  if (!error) parts->port = acceptor.local_endpoint(error).port();
  if (error) return fail(error);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(parts)));
}

HttpServer::HttpServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

HttpServer::~HttpServer() {
  Stop();
  // What still waits for a connection's handlers holds the connection.
  parts_->connections.on_closed = nullptr;
}

int HttpServer::port() const { return parts_->port; }

HttpCounts HttpServer::counts() const { return parts_->connections.counts; }

void HttpServer::Run(Handler handler, Refusal refusal) {
  Connections& connections = parts_->connections;
  connections.handler = std::move(handler);
  connections.refusal = std::move(refusal);
  connections.on_closed = [this] { parts_->EndIfDrained(); };
  parts_->Accept();
  parts_->io.run();
}

void HttpServer::WatchAnswers(std::function<void(const Answered&)> watcher) {
  parts_->connections.on_answered = std::move(watcher);
}

int64_t HttpServer::n_unanswered() const {
  return std::ranges::count_if(parts_->connections.open,
                               [](const auto& connection) { return connection->answers(); });
}

void HttpServer::Post(std::function<void()> call) {
  boost::asio::post(parts_->io, std::move(call));
}

void HttpServer::Drain() {
  boost::system::error_code ignored;
  parts_->acceptor.close(ignored);
  parts_->connections.draining = true;
  const std::set<std::shared_ptr<Connection>> open = parts_->connections.open;
  for (const auto& connection : open) connection->Drain();
  parts_->EndIfDrained();
}

void HttpServer::Stop() {
  boost::system::error_code ignored;
  parts_->acceptor.close(ignored);
  const std::set<std::shared_ptr<Connection>> open = parts_->connections.open;
  for (const auto& connection : open) connection->Close();
  parts_->io.stop();
}

std::shared_ptr<void> HttpServer::After(std::chrono::milliseconds time,
                                        std::function<void()> call) {
  auto timer = std::make_shared<Timer>(Timer{boost::asio::steady_timer(parts_->io, time)});
  timer->timer.async_wait([weak = std::weak_ptr<Timer>(timer),
                           call = std::move(call)](const boost::system::error_code& error) {
    if (!error && weak.lock() != nullptr) call();
  });
  return timer;
}

void HttpServer::WhenReadable(int fd, std::function<void()> call) {
  auto& file = parts_->watched.emplace_back(parts_->io, dup(fd));
  file.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                  [call = std::move(call)](const boost::system::error_code& error) {
                    if (!error) call();
                  });
}

}  // namespace ng::serve
