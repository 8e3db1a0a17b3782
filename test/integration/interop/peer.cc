// The peer for gRPC in C++: the checks of peer_client.c. Called as peer.h says.
#include "peer_service.h"

#include "health.grpc.pb.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

using grpc::StatusCode;
using Context = std::unique_ptr<grpc::ClientContext>;
using Clock = std::chrono::system_clock;
using std::chrono::milliseconds;

static const milliseconds PATIENCE(20000);
static const char TEXT[] = "día 100% \u2014 \u6f22\u5b57\n";
static int n_checks, n_failed;

static void check(bool is_right, const std::string &name)
{
    std::printf("%s %d - %s\n", is_right ? "ok" : "not ok", ++n_checks, name.c_str());
    std::fflush(stdout);
    n_failed += !is_right;
}

static void check_ended(const grpc::Status &status, StatusCode code, const std::string &name)
{
    if (status.error_code() != code)
        std::printf("# ended as %d: %s\n", status.error_code(), status.error_message().c_str());
    check(status.error_code() == code, name);
}

static Context context(milliseconds timeout = PATIENCE)
{
    Context result(new grpc::ClientContext);
    result->set_deadline(Clock::now() + timeout);
    return result;
}

// A call that runs by itself until it is awaited.
template <typename Reply> struct Pending {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_over = false;
    Context context;
    grpc::Status status;
    Reply reply;

    std::function<void(grpc::Status)> on_end()
    {
        return [this](grpc::Status ended) {
            std::lock_guard<std::mutex> lock(mutex);
            status = ended;
            is_over = true;
            changed.notify_all();
        };
    }

    grpc::Status await()
    {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return is_over; });
        return status;
    }
};

struct Client {
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<Interop::Stub> stub;

    Client(const std::string &address, const std::string &directory, grpc::ChannelArguments args)
        : channel(grpc::CreateCustomChannel(address, credentials(directory), args)),
          stub(Interop::NewStub(channel))
    {
    }

    static std::shared_ptr<grpc::ChannelCredentials> credentials(const std::string &directory)
    {
        if (directory == "-")
            return grpc::InsecureChannelCredentials();
        grpc::SslCredentialsOptions options;
        options.pem_root_certs = read_file(directory + "/ca.pem");
        return grpc::SslCredentials(options);
    }

    grpc::Status echo(EchoReply *reply, const EchoRequest &request)
    {
        return stub->Echo(context().get(), request, reply);
    }

    bool echoes(size_t size)
    {
        EchoRequest request;
        EchoReply reply;
        request.set_payload(std::string(size, 'e'));
        grpc::Status status = echo(&reply, request);
        if (!status.ok())
            std::printf("# %d: %s\n", status.error_code(), status.error_message().c_str());
        return status.ok() && reply.payload() == request.payload();
    }

    CountReply counts()
    {
        CountReply reply;
        grpc::Status status = stub->Count(context().get(), CountRequest(), &reply);
        if (!status.ok()) {
            std::printf("Bail out! Count: %s\n", status.error_message().c_str());
            std::exit(1);
        }
        return reply;
    }

    template <typename Condition> bool until(Condition condition)
    {
        Clock::time_point end = Clock::now() + PATIENCE;
        while (!condition())
            if (Clock::now() > end)
                return false;
        return true;
    }

    bool sees_cancelled(uint32_t n)
    {
        return until([this, n] {
            CountReply now = counts();
            return now.cancelled() == n && now.sleeping() == 0;
        });
    }

    bool is_ready()
    {
        return channel->GetState(false) == GRPC_CHANNEL_READY;
    }

    void start_sleep(Pending<SleepReply> *pending, const SleepRequest *request)
    {
        pending->context = context();
        stub->async()->Sleep(pending->context.get(), request, &pending->reply, pending->on_end());
        until([this] { return counts().sleeping() == 1; });
    }
};

static std::string value(const std::multimap<grpc::string_ref, grpc::string_ref> &pairs,
                         const char *name)
{
    auto found = pairs.find(name);
    return found == pairs.end() ? "" : std::string(found->second.data(), found->second.size());
}

static void check_unary(Client &client)
{
    check(client.echoes(100), "unary");
    check(client.echoes(0), "empty message");
    check(client.echoes(3 << 20), "3 MiB both ways");
}

static void check_unknown(Client &client, const std::string &method, const std::string &name)
{
    grpc::TemplatedGenericStub<EchoRequest, EchoReply> generic(client.channel);
    Pending<EchoReply> pending;
    EchoRequest request;
    pending.context = context();
    generic.UnaryCall(pending.context.get(), method, grpc::StubOptions(), &request, &pending.reply,
                      pending.on_end());
    check_ended(pending.await(), StatusCode::UNIMPLEMENTED, name);
}

static void check_errors(Client &client)
{
    const std::string binary("\0\xff\x80,", 4);
    FailRequest request;
    EchoReply reply;
    int n_right = 0;
    request.set_text(TEXT);
    for (int code = 1; code <= 16; code++) {
        request.set_code(code);
        grpc::Status status = client.stub->Fail(context().get(), request, &reply);
        n_right += status.error_code() == code && status.error_message() == TEXT;
    }
    check(n_right == 16, "every status, with a text in UTF-8");

    Context with = context();
    request.set_code(StatusCode::ABORTED);
    Pair *pair = request.add_metadata();
    pair->set_name("x-tail");
    pair->set_value("later");
    pair = request.add_metadata();
    pair->set_name("x-tail-bin");
    pair->set_value(binary);
    check_ended(client.stub->Fail(with.get(), request, &reply), StatusCode::ABORTED,
                "error with metadata");
    check(value(with->GetServerTrailingMetadata(), "x-tail") == "later", "metadata of an error");
    check(value(with->GetServerTrailingMetadata(), "x-tail-bin") == binary,
          "binary metadata of an error");
    check_unknown(client, "/rota.test.v1.Interop/Nothing", "unknown method");
    check_unknown(client, "/no.Service/Nothing", "unknown service");
}

static void check_metadata(Client &client)
{
    const std::string binary("\0\1\2\xff", 4);
    Context with = context();
    EchoReply reply;
    with->AddMetadata("x-head", "before");
    with->AddMetadata("x-tail", "after");
    with->AddMetadata("x-tail-bin", binary);
    client.stub->Echo(with.get(), EchoRequest(), &reply);
    check(value(with->GetServerInitialMetadata(), "x-head") == "before", "metadata in the head");
    check(value(with->GetServerTrailingMetadata(), "x-tail") == "after",
          "metadata behind the reply");
    check(value(with->GetServerTrailingMetadata(), "x-tail-bin") == binary, "binary metadata");
}

static void check_deadline(Client &client)
{
    uint32_t n = client.counts().cancelled();
    SleepReply reply;
    check_ended(client.stub->Sleep(context(milliseconds(200)).get(), SleepRequest(), &reply),
                StatusCode::DEADLINE_EXCEEDED, "deadline at the client");
    check(client.sees_cancelled(n + 1), "deadline at the server");
    uint32_t ms = client.counts().timeout_ms();
    check(ms > 0 && ms <= 220, "the server was told of the deadline");
    std::printf("# the server saw %u of 200 ms\n", ms);
}

static void check_cancel(Client &client)
{
    uint32_t n = client.counts().cancelled();
    Pending<SleepReply> pending;
    SleepRequest request;
    client.start_sleep(&pending, &request);
    pending.context->TryCancel();
    check_ended(pending.await(), StatusCode::CANCELLED, "cancelled");
    check(client.sees_cancelled(n + 1), "a cancelled call ends at the server");
}

static void check_limits(Client &client)
{
    EchoRequest request;
    EchoReply reply;
    request.set_payload(std::string(5 << 20, '\0'));
    check_ended(client.echo(&reply, request), StatusCode::RESOURCE_EXHAUSTED,
                "a request too large");
    check(client.is_ready(), "the connection stays");
    request.clear_payload();
    request.set_reply_size(5 << 20);
    check_ended(client.echo(&reply, request), StatusCode::RESOURCE_EXHAUSTED, "a reply too large");
    check(client.is_ready() && client.echoes(1), "the connection stays and serves");
}

static void check_stream(Client &client)
{
    StreamRequest request;
    StreamReply reply;
    request.set_n(10000);
    request.set_size(1000);
    Context with = context(milliseconds(60000));
    auto reader = client.stub->Stream(with.get(), request);
    uint32_t n = 0;
    bool is_wrong = false;
    for (; reader->Read(&reply); n++)
        is_wrong = is_wrong || reply.index() != n || reply.payload().size() != 1000;
    check_ended(reader->Finish(), StatusCode::OK, "stream");
    check(n == 10000 && !is_wrong, std::to_string(n) + " messages in their order");

    with = context();
    request.set_n(0);
    reader = client.stub->Stream(with.get(), request);
    while (reader->Read(&reply))
        ;
    check_ended(reader->Finish(), StatusCode::OK, "stream without a message");
}

static void check_held_back(Client &client)
{
    CountReply before = client.counts(), last = before;
    StreamRequest request;
    StreamReply reply;
    request.set_n(5000);
    request.set_size(50000);
    Context with = context(milliseconds(60000));
    auto reader = client.stub->Stream(with.get(), request);
    reader->Read(&reply);
    for (int n_same = 0; n_same < 50;) {
        CountReply now = client.counts();
        n_same = now.streamed() == last.streamed() ? n_same + 1 : 0;
        last = now;
    }
    uint32_t n = last.streamed() - before.streamed();
    check(n < 5000, "a reader that stops holds the server back");
    std::printf("# after %u of 5000 messages\n", n);
    with->TryCancel();
    while (reader->Read(&reply))
        ;
    reader->Finish();
    check(client.sees_cancelled(before.cancelled() + 1), "a cancelled stream ends at the server");
}

static void check_many(Client &client)
{
    std::vector<Pending<EchoReply>> calls(2000);
    EchoRequest request;
    int n_right = 0;
    request.set_payload("many");
    for (auto &call : calls) {
        call.context = context(milliseconds(60000));
        client.stub->async()->Echo(call.context.get(), &request, &call.reply, call.on_end());
    }
    for (auto &call : calls)
        n_right += call.await().ok() && call.reply.payload() == "many";
    check(n_right == 2000, "2000 calls at one time");
}

static void check_keepalive(const std::string &address, const std::string &directory)
{
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 200);
    args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
    args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    Client client(address, directory, args);
    SleepRequest request;
    SleepReply reply;
    request.set_ms(1500);
    check_ended(client.stub->Sleep(context().get(), request, &reply), StatusCode::OK,
                "pings while a call waits");
}

static void check_gzip(Client &client)
{
    EchoRequest request;
    EchoReply reply;
    Context with = context();
    request.set_payload(std::string(1000, 'z'));
    with->set_compression_algorithm(GRPC_COMPRESS_GZIP);
    check_ended(client.stub->Echo(with.get(), request, &reply), StatusCode::OK,
                "a request with gzip is answered");
    check(reply.payload() == request.payload(), "the reply, with gzip, is what was asked");
    Context other = context();
    other->set_compression_algorithm(GRPC_COMPRESS_DEFLATE);
    check_ended(client.stub->Echo(other.get(), request, &reply), StatusCode::UNIMPLEMENTED,
                "a request with another compression is refused");
    auto accepted = other->GetServerInitialMetadata();
    check(accepted.empty() || !accepted.count("grpc-encoding"), "the refusal is plain");
    check(client.is_ready() && client.echoes(1), "the connection stays");
}

static void check_chat(Client &client)
{
    uint32_t cancelled = client.counts().cancelled();
    EchoRequest request;
    EchoReply reply;
    int n = 0;
    Context with = context();
    auto talking = client.stub->Chat(with.get());
    for (; n < 1000; n++) {
        request.set_payload(std::string(n, 'c'));
        if (!talking->Write(request) || !talking->Read(&reply) ||
            reply.payload() != request.payload())
            break;
    }
    talking->WritesDone();
    check_ended(talking->Finish(), StatusCode::OK, "a stream of requests");
    check(n == 1000, "each of them answered");

    with = context();
    talking = client.stub->Chat(with.get());
    talking->Write(request);
    talking->Read(&reply);
    with->TryCancel();
    check_ended(talking->Finish(), StatusCode::CANCELLED, "a stream of requests cancelled");
    check(client.sees_cancelled(cancelled + 1), "whose handler is told");
}

static void check_health(Client &client)
{
    auto health = grpc::health::v1::Health::NewStub(client.channel);
    grpc::health::v1::HealthCheckRequest request;
    grpc::health::v1::HealthCheckResponse reply;
    grpc::Status status = health->Check(context().get(), request, &reply);
    check(status.ok() && reply.status() == reply.SERVING, "health: Check of the server");
    request.set_service("nobody");
    check_ended(health->Check(context().get(), request, &reply), StatusCode::NOT_FOUND,
                "health: Check of nobody");

    Context with = context();
    request.set_service("rota.test.v1.Interop");
    auto reader = health->Watch(with.get(), request);
    check(reader->Read(&reply) && reply.status() == reply.SERVING,
          "health: Watch tells the status at once");
    SetServingRequest serving;
    SetServingReply set;
    client.stub->SetServing(context().get(), serving, &set);
    check(reader->Read(&reply) && reply.status() == reply.NOT_SERVING,
          "health: Watch tells of a change");
    status = health->Check(context().get(), request, &reply);
    check(status.ok() && reply.status() == reply.NOT_SERVING, "health: Check of a service");
    serving.set_serving(true);
    client.stub->SetServing(context().get(), serving, &set);
    with->TryCancel();
    while (reader->Read(&reply))
        ;
    reader->Finish();
}

// Calls on and on, while the server drains and another takes its place.
static void survive(Client &client)
{
    std::atomic<bool> is_told_to_end(false);
    int n_calls = 0, n_lost = 0;
    Pending<SleepReply> pending;
    SleepRequest request;
    request.set_ms(700);
    client.start_sleep(&pending, &request);
    std::thread input([&is_told_to_end] {
        std::string line;
        std::getline(std::cin, line);
        is_told_to_end = true;
    });
    for (int n_after = 0; n_after < 100; n_calls++) {
        if (n_calls == 50) {
            std::printf("holding\n");
            std::fflush(stdout);
        }
        Context with = context(milliseconds(60000));
        EchoReply reply;
        with->set_wait_for_ready(true);
        grpc::Status status = client.stub->Echo(with.get(), EchoRequest(), &reply);
        if (!status.ok()) {
            std::printf("# %d: %s\n", status.error_code(), status.error_message().c_str());
            n_lost++;
        }
        n_after += is_told_to_end;
    }
    input.join();
    check_ended(pending.await(), StatusCode::OK, "the call under way finishes in the drain");
    check(n_lost == 0, "no call is lost while the server is replaced");
    std::printf("# %d calls\n", n_calls);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        std::fprintf(stderr, "usage: peer serve|check|survive ADDRESS DIRECTORY|- [WHAT...]\n");
        return 2;
    }
    const std::string command = argv[1], address = argv[2], directory = argv[3];
    const std::set<std::string> what(argv + 4, argv + argc);
    if (command == "serve")
        return serve(address, directory);
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    Client client(address, directory, args);
    if (command == "survive") {
        survive(client);
    } else {
        check_unary(client);
        check_errors(client);
        check_metadata(client);
        check_deadline(client);
        check_cancel(client);
        check_limits(client);
        check_stream(client);
        check_held_back(client);
        check_many(client);
        check_keepalive(address, directory);
        if (what.count("chat"))
            check_chat(client);
        if (what.count("gzip"))
            check_gzip(client);
        if (what.count("health"))
            check_health(client);
    }
    std::printf("1..%d\n", n_checks);
    return n_failed > 0;
}
