/* The build says with BOOT_SCRIPT which file it is. */
#include "embedded.h"

__asm__(".section .rodata.embedded, \"a\"\n"
        ".global embedded_script, embedded_script_bytes\n"
        ".balign 8\n"
        "embedded_script_bytes: .quad 1f - embedded_script\n"
        "embedded_script: .incbin \"" BOOT_SCRIPT "\"\n"
        "1: .byte 0\n"
        ".previous\n");
