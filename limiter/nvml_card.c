/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/nvml_card.h"

#include <stdbool.h>
#include <string.h>

#include "limiter/nvml_real.h"
#include "limiter/share.h"

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* False: it is not "GPU-" and 32 digits with hyphens between. An instance of MIG has another. */
static bool parse_uuid(const char *text, uint8_t ret[16])
{
    unsigned int n = 0;
    if (strncmp(text, "GPU-", 4) != 0)
        return false;
    for (text += 4; *text != '\0'; text++) {
        int d = digit(*text);
        if (*text == '-')
            continue;
        if (d < 0 || n == 32)
            return false;
        ret[n / 2] = (uint8_t)(ret[n / 2] << 4U | d);
        n++;
    }
    return n == 32;
}

nvmlReturn_t nvml_card_of(nvmlDevice_t device, int *ret_card)
{
    char text[NVML_UUID_SIZE] = "";
    uint8_t uuid[16] = {0};
    nvmlReturn_t rc = nvml_real.nvmlDeviceGetUUID(device, text, sizeof(text));
    if (rc != NVML_SUCCESS)
        return rc;
    if (!share_open())
        return NVML_ERROR_NO_PERMISSION;
    *ret_card = parse_uuid(text, uuid) ? share_card_of(uuid) : -1;
    return NVML_SUCCESS;
}
