/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/auto.h"

#include "service/listen_socket.h"

Test(listen_socket, loopback_is_what_this_machine_alone_reaches)
{
    static const char *const loopback[] = {"127.0.0.1:1", "127.1.2.3:0", "[::1]:8888",
                                           "localhost:1"};
    static const char *const others[] = {":1",
                                         "0.0.0.0:1",
                                         "[::]:1",
                                         "10.0.0.1:1",
                                         "128.0.0.1:1",
                                         "[fe80::1]:1",
                                         "localhos:1",
                                         "127.0.0.1.example.com:1",
                                         "[::ffff:10.0.0.1]:1",
                                         "127.0.0.1"};
    for (size_t i = 0; i < ARRAY_LEN(loopback); i++)
        cr_expect(listen_socket_is_loopback(loopback[i]), "%s", loopback[i]);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        cr_expect_not(listen_socket_is_loopback(others[i]), "%s", others[i]);
}
