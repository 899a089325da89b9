#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ng::test {
namespace {

constexpr int kMilliseconds = 1000;

std::string Headers(const std::string& more) { return "Host: localhost\r\n" + more; }

}  // namespace

HttpClient::HttpClient(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connected = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  EXPECT_EQ(connected, 0) << "port " << port;
}

HttpClient::~HttpClient() { Close(); }

void HttpClient::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

bool HttpClient::Send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool HttpClient::More(int seconds) {
  pollfd wait = {fd_, POLLIN, 0};
  if (poll(&wait, 1, seconds * kMilliseconds) <= 0) return false;
  char buffer[16384];
  const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
  if (n <= 0) return false;
  received_.append(buffer, static_cast<size_t>(n));
  return true;
}

bool HttpClient::ReceiveUntil(std::string_view text) {
  while (received_.find(text) == received_.npos) {
    if (!More()) return false;
  }
  return true;
}

bool HttpClient::Ends(int seconds) {
  pollfd wait = {fd_, POLLIN, 0};
  if (!received_.empty() || poll(&wait, 1, seconds * kMilliseconds) <= 0) return false;
  char byte = 0;
  return recv(fd_, &byte, 1, 0) <= 0;
}

void HttpClient::ReceiveChunks(HttpResponse* response) {
  for (;;) {
    if (!ReceiveUntil("\r\n")) return;
    const size_t size = std::strtoul(received_.c_str(), nullptr, 16);
    const size_t begin = received_.find("\r\n") + 2;
    while (received_.size() < begin + size + 2) {
      if (!More()) return;
    }
    response->body += received_.substr(begin, size);
    received_.erase(0, begin + size + 2);
    if (size == 0) break;
  }
  response->whole = true;
}

HttpResponse HttpClient::Receive() {
  HttpResponse response;
  if (!ReceiveUntil("\r\n\r\n")) return response;
  const size_t end = received_.find("\r\n\r\n");
  const std::string head = received_.substr(0, end + 2);
  received_.erase(0, end + 4);
  response.status = std::atoi(head.c_str() + head.find(' '));
  for (size_t begin = head.find("\r\n") + 2; begin < head.size();) {
    const size_t stop = head.find("\r\n", begin);
    const size_t colon = head.find(": ", begin);
    response.headers[absl::AsciiStrToLower(head.substr(begin, colon - begin))] =
        head.substr(colon + 2, stop - colon - 2);
    begin = stop + 2;
  }
  if (response.status == 100) return Receive();
  if (response.headers.contains("transfer-encoding")) {
    ReceiveChunks(&response);
    return response;
  }
  const auto length = response.headers.find("content-length");
  const size_t n = length == response.headers.end()
                       ? std::string::npos
                       : std::strtoul(length->second.c_str(), nullptr, 10);
  while (received_.size() < n && More()) continue;
  response.body = received_.substr(0, n);
  response.whole = response.body.size() == n || n == std::string::npos;
  received_.erase(0, response.body.size());
  return response;
}

HttpResponse HttpClient::Post(const std::string& path, const std::string& body,
                              const std::string& headers) {
  Send(absl::StrCat("POST ", path, " HTTP/1.1\r\n", Headers(headers),
                    "Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n\r\n",
                    body));
  return Receive();
}

HttpResponse HttpClient::Get(const std::string& path, const std::string& headers) {
  Send(absl::StrCat("GET ", path, " HTTP/1.1\r\n", Headers(headers), "\r\n"));
  return Receive();
}

std::vector<std::string> Events(const std::string& body) {
  constexpr std::string_view kName = "event: ";
  constexpr std::string_view kData = "data: ";
  std::vector<std::string> events;
  size_t begin = 0;
  while (begin < body.size()) {
    const size_t end = body.find("\n\n", begin);
    if (body[begin] == ':' && end != body.npos) {  // a comment, while a client waits
      begin = end + 2;
      continue;
    }
    if (body.compare(begin, kName.size(), kName) == 0) begin = body.find('\n', begin) + 1;
    EXPECT_EQ(body.compare(begin, kData.size(), kData), 0) << body.substr(begin, 80);
    EXPECT_NE(end, body.npos);
    if (end == body.npos) break;
    events.push_back(body.substr(begin + kData.size(), end - begin - kData.size()));
    begin = end + 2;
  }
  return events;
}

}  // namespace ng::test
