/* The build says with BOOT_SCRIPT which file it is. */
#include "embedded.h"

__asm__(".section .rodata.embedded, \"a\"\n"
        ".global embedded_script, embedded_script_end\n"
        "embedded_script:\n"
        ".incbin \"" BOOT_SCRIPT "\"\n"
        "embedded_script_end:\n"
        ".byte 0\n"
        ".previous\n");
