/** Types of in-page.mjs: what a browser has is nothing of Node. */

export function isDrawn(canvas: unknown): boolean
export function lowContrast(): string[]
