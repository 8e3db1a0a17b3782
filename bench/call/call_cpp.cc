// gRPC C++ as its users meet it: generated messages and stubs, the asynchronous
// API, one completion queue and one thread, arguments as they are.
#include "load.h"

#include "cache.grpc.pb.h"
#include "echo.grpc.pb.h"

#include <chrono>
#include <cstring>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace
{

struct Step {
    virtual ~Step() = default;
    virtual void proceed(bool ok) = 0;
};

// --- the server ---

void answer(const bench::Message &request, bench::Message &reply)
{
    reply.set_id(request.id());
    reply.set_payload(request.payload());
}

void answer(const rota::v1::GetRequest &request, rota::v1::GetResponse &reply)
{
    reply.Clear();
    for (int i = 0; i < request.key_size(); i++) {
        char value[LOAD_VALUE_SIZE];
        auto *entry = reply.add_entry();
        load_value(request.key(i).data(), value);
        entry->set_id(static_cast<uint64_t>(i));
        entry->set_value(value, sizeof value);
    }
    rota::v1::Interval *shard = reply.add_shard();
    shard->set_to(64);
    shard->set_of(64);
    shard->set_epoch(request.epoch());
    reply.set_all_matched(true);
}

template <typename Service, typename Request, typename Reply, typename Ask> struct Served : Step {
    Service &service;
    grpc::ServerCompletionQueue &queue;
    Ask ask;
    std::optional<grpc::ServerContext> context;
    std::optional<grpc::ServerAsyncResponseWriter<Reply>> writer;
    Request request;
    Reply reply;
    bool is_answering = false;

    Served(Service &s, grpc::ServerCompletionQueue &q, Ask a) : service(s), queue(q), ask(a)
    {
        post();
    }

    void post()
    {
        is_answering = false;
        writer.reset();
        context.emplace();
        writer.emplace(&*context);
        (service.*ask)(&*context, &request, &*writer, &queue, &queue, this);
    }

    void proceed(bool ok) override
    {
        if (is_answering) {
            post();
        } else if (ok) {
            is_answering = true;
            answer(request, reply);
            writer->Finish(reply, grpc::Status::OK, this);
        }
    }
};

void run(grpc::CompletionQueue &queue)
{
    void *tag;
    bool ok;
    while (queue.Next(&tag, &ok))
        static_cast<Step *>(tag)->proceed(ok);
}

void serve()
{
    bench::Echo::AsyncService echo;
    rota::v1::Cache::AsyncService cache;
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&echo);
    builder.RegisterService(&cache);
    auto queue = builder.AddCompletionQueue();
    auto server = builder.BuildAndStart();
    std::vector<std::unique_ptr<Step>> posted;
    using AskEcho = decltype(&bench::Echo::AsyncService::RequestCall);
    using AskCache = decltype(&rota::v1::Cache::AsyncService::RequestGet);
    for (int i = 0; i < LOAD_CALLS_MAX; i++) {
        posted.emplace_back(
            new Served<bench::Echo::AsyncService, bench::Message, bench::Message, AskEcho>(
                echo, *queue, &bench::Echo::AsyncService::RequestCall));
        posted.emplace_back(
            new Served<rota::v1::Cache::AsyncService, rota::v1::GetRequest, rota::v1::GetResponse,
                       AskCache>(cache, *queue, &rota::v1::Cache::AsyncService::RequestGet));
    }
    load_ready(("127.0.0.1:" + std::to_string(port)).c_str());
    run(*queue);
}

// --- the client ---

void ask(uint64_t id, bench::Message &request)
{
    char payload[LOAD_PAYLOAD_SIZE];
    load_payload(id, payload);
    request.set_id(id);
    request.set_payload(payload, sizeof payload);
}

void ask(uint64_t id, rota::v1::GetRequest &request)
{
    request.Clear();
    request.set_epoch(id);
    for (unsigned i = 0; i < LOAD_KEYS; i++) {
        char key[LOAD_KEY_SIZE];
        load_key(id, i, key);
        request.add_key(key, sizeof key);
    }
}

bool is_right(uint64_t id, const bench::Message &reply)
{
    char payload[LOAD_PAYLOAD_SIZE];
    load_payload(id, payload);
    return reply.id() == id && reply.payload().size() == sizeof payload &&
           memcmp(reply.payload().data(), payload, sizeof payload) == 0;
}

bool is_right(uint64_t id, const rota::v1::GetResponse &reply)
{
    if (reply.entry_size() != LOAD_KEYS || !reply.all_matched() || reply.shard_size() != 1 ||
        reply.shard(0).epoch() != id || reply.shard(0).to() != 64)
        return false;
    for (unsigned i = 0; i < LOAD_KEYS; i++) {
        const auto &entry = reply.entry(static_cast<int>(i));
        char key[LOAD_KEY_SIZE], value[LOAD_VALUE_SIZE];
        load_key(id, i, key);
        load_value(key, value);
        if (entry.id() != i || entry.value().size() != sizeof value ||
            memcmp(entry.value().data(), value, sizeof value) != 0)
            return false;
    }
    return true;
}

template <typename Stub, typename Request, typename Reply> struct Asked : Step {
    using Start = std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> (Stub::*)(
        grpc::ClientContext *, const Request &, grpc::CompletionQueue *);
    load *const the_load;
    Stub &stub;
    grpc::CompletionQueue &queue;
    Start start;
    unsigned slot;
    uint64_t id = 0;
    std::optional<grpc::ClientContext> context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader;
    Request request;
    Reply reply;
    grpc::Status status;

    Asked(load *l, Stub &s, grpc::CompletionQueue &q, Start st, unsigned n)
        : the_load(l), stub(s), queue(q), start(st), slot(n)
    {
        begin();
    }

    void begin()
    {
        id = load_begin(the_load, slot);
        ask(id, request);
        reader.reset();
        context.emplace();
        context->set_deadline(std::chrono::system_clock::now() +
                              std::chrono::milliseconds(LOAD_TIMEOUT_MS));
        reader = (stub.*start)(&*context, request, &queue);
        reader->Finish(&reply, &status, this);
    }

    void proceed(bool) override
    {
        if (!status.ok())
            load_fail("a call failed with status %d: %s", status.error_code(),
                      status.error_message().c_str());
        load_end(the_load, slot, is_right(id, reply));
        begin();
    }
};

template <typename Service, typename Request, typename Reply, typename Start>
void drive_with(load *the_load, Start start)
{
    using Stub = typename Service::Stub;
    grpc::CompletionQueue queue;
    std::vector<std::unique_ptr<Stub>> stubs;
    std::vector<std::unique_ptr<Step>> calls;
    for (unsigned i = 0; i < the_load->n_connections; i++) {
        grpc::ChannelArguments arguments;
        arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
        stubs.push_back(Service::NewStub(grpc::CreateCustomChannel(
            the_load->address, grpc::InsecureChannelCredentials(), arguments)));
    }
    for (unsigned i = 0; i < the_load->n_calls; i++)
        calls.emplace_back(new Asked<Stub, Request, Reply>(
            the_load, *stubs[i % the_load->n_connections], queue, start, i));
    run(queue);
}

void drive(load *the_load)
{
    if (the_load->is_batch)
        drive_with<rota::v1::Cache, rota::v1::GetRequest, rota::v1::GetResponse>(
            the_load, &rota::v1::Cache::Stub::AsyncGet);
    else
        drive_with<bench::Echo, bench::Message, bench::Message>(the_load,
                                                                &bench::Echo::Stub::AsyncCall);
}

} // namespace

int main(int argc, char **argv)
{
    const load_transport transport = {"call_cpp", serve, drive};
    return load_main(argc, argv, &transport);
}
