// One connection of the HTTP server: reads a request, waits for its answer, writes it, and begins
// again. Only the files of this folder know Beast.
//
// Thread: the server's.
#ifndef NG_APPS_SERVE_HTTP_CONNECTION_H_
#define NG_APPS_SERVE_HTTP_CONNECTION_H_

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "apps/serve/http/exchange.h"
#include "apps/serve/http/server.h"

namespace ng::serve {

class Connection;

// What all connections of a server share.
struct Connections {
  HttpLimits limits;
  HttpServer::Handler handler = {};
  HttpServer::Refusal refusal = {};
  std::function<void()> on_closed = {};  // one of them has closed
  std::function<void(const Answered&)> on_answered = {};
  HttpCounts counts = {};
  bool draining = false;
  std::set<std::shared_ptr<Connection>> open = {};
  std::list<Connection*> idle = {};  // that wait for a request, the longest waiting first
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, Connections& all);

  void Start() { Await(); }
  // Closes it now, whatever it does.
  void Close();
  // Closes it now if it is idle, else when its answer has ended.
  void Drain();
  // Whether a request waits for its answer, or for the end of it.
  bool answers() const { return answer_ != nullptr; }

 private:
  class Answer;  // its Exchange

  // Calls when a time has passed; one that is armed again or disarmed has not.
  struct Deadline {
    boost::asio::steady_timer timer;
    uint64_t armed = 0;
  };
  void Arm(Deadline& deadline, std::chrono::seconds time, void (Connection::*call)());
  static void Disarm(Deadline& deadline);

  // Waits for the first bytes of a request.
  void Await();
  // Reads what comes, while a request is awaited or answered: so a client that leaves is seen.
  void Watch();
  void OnBytes(const boost::system::error_code& error, size_t n);
  void ReadRequest();
  void OnHeader(const boost::system::error_code& error);
  void OnRequest(const boost::system::error_code& error);
  void OnReadError(const boost::system::error_code& error);
  void OnReadTimeout();
  // Answers in place of the handler, and closes.
  void Refuse(int status, const std::string& message);
  // The path of the request that is read, as far as it is known.
  std::string PathRead() const;

  void SendReply(const HttpReply& reply);
  void BeginStream(const std::string& content_type);
  void SendChunk(const std::string& bytes);
  void EndStream();
  void Queue(std::string_view bytes);
  void WriteSome();
  void OnWritten(const boost::system::error_code& error, size_t n);
  void OnWriteTimeout();
  // Tells who watches the server what became of the request.
  void Tell(const Answer* answer, bool gone);
  // The answer has ended; what of it is not sent yet goes before what follows.
  void EndAnswer();
  void Next();
  // Lets the client read the answer to its end before the connection is closed.
  void Linger();
  void LeaveIdle();

  Connections& all_;
  boost::asio::ip::tcp::socket socket_;
  Deadline read_deadline_;
  Deadline write_deadline_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::shared_ptr<Answer> answer_;                 // while one is awaited
  std::chrono::steady_clock::time_point begun_{};  // when the first bytes of the request came
  int status_ = 0;                                 // of the answer so far
  std::optional<std::list<Connection*>::iterator> idle_;
  std::string waiting_;  // to be sent after what is in flight
  std::string in_flight_;
  size_t n_sent_ = 0;  // of in_flight_
  size_t n_discarded_ = 0;
  bool chunked_ = false;
  bool keep_alive_ = false;
  bool streams_ = false;
  bool without_body_ = false;  // the answer to HEAD
  bool ended_ = false;         // the answer; its end is to be sent
  bool watching_ = false;
  bool writing_ = false;
  bool refused_ = false;
  bool lingers_ = false;
  bool closed_ = false;
};

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_HTTP_CONNECTION_H_
