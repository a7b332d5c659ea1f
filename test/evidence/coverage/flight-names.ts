/** Variables of the environment of a process that records. It loads nothing of the firmware. */

/** The folder for what it leaves. */
export const FOLDER = 'PERDURE_FLIGHT'

/** How many branches there are. */
export const BRANCHES = 'PERDURE_BRANCHES'
