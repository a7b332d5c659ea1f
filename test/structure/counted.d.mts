export function counted(text: string, path: string): string
