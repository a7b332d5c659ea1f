/*
 * The release that a program says it is of: that of package.json, which the build hands over, so
 * that the two cannot differ.
 */
#ifndef PERDURE_VERSION_H
#define PERDURE_VERSION_H

#ifndef PERDURE_VERSION
#define PERDURE_VERSION "of no release"
#endif

#endif
