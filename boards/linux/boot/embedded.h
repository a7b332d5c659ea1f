/* The script that the program was linked with. */
#ifndef PERDURE_BOOT_EMBEDDED_H
#define PERDURE_BOOT_EMBEDDED_H

/* From the first byte to the NUL behind the last one. */
extern const char embedded_script[], embedded_script_end[];

#endif
