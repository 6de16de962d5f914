// A thin client of the agent on this device. Errors are grpc's, with what the agent says and a fix.
#pragma once
#include <cstdlib>
#include <functional>
#include <grpcpp/grpcpp.h>
#include <istream>
#include <string>
#include <thread>

#include "sottovoce/v1/edge_agent.grpc.pb.h"

namespace sottovoce {

class Agent {
 public:
  // The token is this app's (`sotto apps new`), where the agent asks for one: SOTTO_APP_TOKEN by default.
  explicit Agent(const std::string& address, const std::string& token = FromEnvironment()) : token_(token) {
    grpc::ChannelArguments direct;
    direct.SetInt("grpc.enable_http_proxy", 0);
    // gRPC's own retries lose the end of a stream that is opened while the agent restarts.
    direct.SetInt("grpc.enable_retries", 0);
    stub_ = v1::EdgeAgentService::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), direct));
  }

  // The text as it may leave.
  grpc::Status Privatize(const std::string& text, v1::PrivatizeResponse* answer) {
    grpc::ClientContext context;
    Introduce(&context);
    v1::PrivatizeRequest request;
    request.set_text(text);
    return stub_->Privatize(&context, request, answer);
  }

  // An adapter's answers to lines, in order, as they come. If the agent ends before the lines do, this
  // is told when the next line has come: a stream cannot be left while it is read.
  grpc::Status Predict(const std::string& adapter, std::istream& lines,
                       const std::function<void(const v1::PredictResponse&)>& answered) {
    grpc::ClientContext context;
    Introduce(&context);
    auto stream = stub_->PredictStream(&context);
    std::thread sending([&] {
      v1::PredictStreamRequest request;
      request.mutable_request()->set_adapter(adapter);
      for (std::string line; std::getline(lines, line);) {
        request.mutable_request()->set_text(line);
        if (!stream->Write(request)) break;
      }
      stream->WritesDone();
    });
    for (v1::PredictStreamResponse answer; stream->Read(&answer);) answered(answer.response());
    sending.join();
    return stream->Finish();
  }

 private:
  static std::string FromEnvironment() {
    const char* token = std::getenv("SOTTO_APP_TOKEN");
    return token ? token : "";
  }

  void Introduce(grpc::ClientContext* context) const {
    if (!token_.empty()) context->AddMetadata("authorization", "Bearer " + token_);
  }

  std::string token_;
  std::unique_ptr<v1::EdgeAgentService::Stub> stub_;
};

}  // namespace sottovoce
