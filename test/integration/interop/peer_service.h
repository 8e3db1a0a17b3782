// The service of interop.proto with gRPC in C++.
#pragma once

#include "interop.grpc.pb.h"

#include <string>

using namespace rota::test::v1;

std::string read_file(const std::string &path);

// Serve until SIGTERM and return the program's status.
int serve(const std::string &address, const std::string &directory);
