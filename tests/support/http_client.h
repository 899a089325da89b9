// A client of HTTP over a plain socket, which can do everything wrong.
#ifndef NG_TESTS_SUPPORT_HTTP_CLIENT_H_
#define NG_TESTS_SUPPORT_HTTP_CLIENT_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ng::test {

struct HttpResponse {
  int status = 0;                              // 0: no whole response came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // without the frames of chunks
  bool whole = false;                          // as long as its headers say
};

class HttpClient {
 public:
  explicit HttpClient(int port);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // False when the other side takes no more.
  bool Send(std::string_view bytes) const;
  // The next response, or as much of it as comes before the connection ends or for 60 seconds
  // nothing comes.
  HttpResponse Receive();
  // Reads until the text has come. False: it does not come.
  bool ReceiveUntil(std::string_view text);
  // Whether the other side closes the connection within some seconds and says nothing before.
  bool Ends(int seconds = 60);
  void Close();

  // Sends a request with a body and receives the response. `headers`: whole lines.
  HttpResponse Post(const std::string& path, const std::string& body,
                    const std::string& headers = "");
  HttpResponse Get(const std::string& path, const std::string& headers = "");

 private:
  // More bytes to received_. False: none come.
  bool More(int seconds = 60);
  void ReceiveChunks(HttpResponse* response);

  int fd_ = -1;
  std::string received_;
};

// The data of a stream's events, in their order; some have a name before it.
std::vector<std::string> Events(const std::string& body);

}  // namespace ng::test

#endif  // NG_TESTS_SUPPORT_HTTP_CLIENT_H_
