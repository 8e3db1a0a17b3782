#include "peer_service.h"

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <mutex>

using Clock = std::chrono::system_clock;

std::string read_file(const std::string &path)
{
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

static struct {
    std::atomic<uint32_t> sleeping, cancelled, streamed, timeout_ms;
} counts;

// A call of Sleep: over when it was cancelled, or its time has come, whichever
// is first.
class Sleeper : public grpc::ServerUnaryReactor
{
  public:
    explicit Sleeper(uint32_t ms)
    {
        if (ms > 0)
            alarm.Set(Clock::now() + std::chrono::milliseconds(ms), [this](bool) { end(false); });
    }
    void OnCancel() override
    {
        alarm.Cancel();
        end(true);
    }
    void OnDone() override
    {
        delete this;
    }

  private:
    void end(bool is_cancelled)
    {
        if (is_over.exchange(true))
            return;
        counts.sleeping--;
        counts.cancelled += is_cancelled;
        Finish(is_cancelled ? grpc::Status::CANCELLED : grpc::Status::OK);
    }

    std::atomic<bool> is_over{false};
    grpc::Alarm alarm;
};

class Streamer : public grpc::ServerWriteReactor<StreamReply>
{
  public:
    explicit Streamer(const StreamRequest &request) : n(request.n())
    {
        reply.set_payload(std::string(request.size(), '\0'));
        next();
    }
    void OnWriteDone(bool is_well) override
    {
        if (is_well)
            next();
        else
            end(true);
    }
    void OnCancel() override
    {
    } // the write under way fails
    void OnDone() override
    {
        delete this;
    }

  private:
    void next()
    {
        if (index == n) {
            end(false);
            return;
        }
        counts.streamed++;
        reply.set_index(index++);
        StartWrite(&reply);
    }
    void end(bool is_cancelled)
    {
        counts.cancelled += is_cancelled;
        Finish(is_cancelled ? grpc::Status::CANCELLED : grpc::Status::OK);
    }

    uint32_t n, index = 0;
    StreamReply reply;
};

class Service : public Interop::CallbackService
{
  public:
    grpc::Server *server = nullptr;

    grpc::ServerUnaryReactor *Echo(grpc::CallbackServerContext *context, const EchoRequest *request,
                                   EchoReply *reply) override
    {
        for (const auto &pair : context->client_metadata()) {
            std::string name(pair.first.data(), pair.first.size());
            std::string value(pair.second.data(), pair.second.size());
            if (name.rfind("x-head", 0) == 0)
                context->AddInitialMetadata(name, value);
            if (name.rfind("x-tail", 0) == 0)
                context->AddTrailingMetadata(name, value);
        }
        if (request->reply_size() > 0)
            reply->set_payload(std::string(request->reply_size(), '\0'));
        else
            reply->set_payload(request->payload());
        return finish(context, grpc::Status::OK);
    }

    grpc::ServerUnaryReactor *Fail(grpc::CallbackServerContext *context, const FailRequest *request,
                                   EchoReply *) override
    {
        for (const Pair &pair : request->metadata())
            context->AddTrailingMetadata(pair.name(), pair.value());
        return finish(
            context, grpc::Status(static_cast<grpc::StatusCode>(request->code()), request->text()));
    }

    grpc::ServerUnaryReactor *Sleep(grpc::CallbackServerContext *context,
                                    const SleepRequest *request, SleepReply *) override
    {
        auto left =
            std::chrono::ceil<std::chrono::milliseconds>(context->deadline() - Clock::now());
        bool has_deadline = context->deadline() < Clock::now() + std::chrono::hours(24);
        counts.sleeping++;
        counts.timeout_ms = has_deadline ? static_cast<uint32_t>(left.count()) : 0;
        return new Sleeper(request->ms());
    }

    grpc::ServerUnaryReactor *Count(grpc::CallbackServerContext *context, const CountRequest *,
                                    CountReply *reply) override
    {
        reply->set_sleeping(counts.sleeping);
        reply->set_cancelled(counts.cancelled);
        reply->set_streamed(counts.streamed);
        reply->set_timeout_ms(counts.timeout_ms);
        return finish(context, grpc::Status::OK);
    }

    grpc::ServerWriteReactor<StreamReply> *Stream(grpc::CallbackServerContext *,
                                                  const StreamRequest *request) override
    {
        return new Streamer(*request);
    }

    grpc::ServerUnaryReactor *SetServing(grpc::CallbackServerContext *context,
                                         const SetServingRequest *request,
                                         SetServingReply *) override
    {
        server->GetHealthCheckService()->SetServingStatus("rota.test.v1.Interop",
                                                          request->serving());
        return finish(context, grpc::Status::OK);
    }

  private:
    static grpc::ServerUnaryReactor *finish(grpc::CallbackServerContext *context,
                                            const grpc::Status &status)
    {
        grpc::ServerUnaryReactor *reactor = context->DefaultReactor();
        reactor->Finish(status);
        return reactor;
    }
};

static std::shared_ptr<grpc::ServerCredentials> credentials(const std::string &directory)
{
    if (directory == "-")
        return grpc::InsecureServerCredentials();
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back(
        {read_file(directory + "/key.pem"), read_file(directory + "/cert.pem")});
    return grpc::SslServerCredentials(options);
}

int serve(const std::string &address, const std::string &directory)
{
    // Before gRPC starts its threads, so that they all leave it to us.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);

    Service service;
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    int port = 0;
    // Without this a ping more often than once in 5 minutes is held against us.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 100);
    builder.AddListeningPort(address, credentials(directory), &port);
    builder.RegisterService(&service);
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (!server || port == 0) {
        std::fprintf(stderr, "peer: can't serve at %s\n", address.c_str());
        return 1;
    }
    service.server = server.get();
    server->GetHealthCheckService()->SetServingStatus("rota.test.v1.Interop", true);
    std::printf("ready %s:%d\n", address.substr(0, address.rfind(':')).c_str(), port);
    std::fflush(stdout);
    int number;
    sigwait(&signals, &number);
    server->Shutdown(Clock::now() + std::chrono::seconds(30));
    server->Wait();
    return 0;
}
