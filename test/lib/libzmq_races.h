/* For programs that speak ZeroMQ and are run under ThreadSanitizer; included once in each. */
#pragma once

/* ThreadSanitizer does not see how libzmq keeps its own threads apart, so what that does
 * in there is left out; our own threads share nothing through it but messages. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libzmq.so\ncalled_from_lib:libsodium.so\n";
}
