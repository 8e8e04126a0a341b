/* Makes fsync fail with EDQUOT, as on a network file system without free quota. */

#include <errno.h>

int fsync(int file) {
    (void)file;
    errno = EDQUOT;
    return -1;
}
