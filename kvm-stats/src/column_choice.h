/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The columns that a user has hidden in "top", as a mask of columns[]. They are kept in
 * $XDG_CONFIG_HOME/kvm-stats/columns. Both functions write a message to problem if they fail.
 */
#ifndef COLUMN_CHOICE_H
#define COLUMN_CHOICE_H

#include <stddef.h>
#include <stdint.h>

/* Return 0 if no column is hidden, or the file is damaged. */
uint32_t read_hidden_columns(char *problem, size_t size);

/* The file is replaced as a whole, or not at all. */
void write_hidden_columns(uint32_t hidden, char *problem, size_t size);

#endif /* COLUMN_CHOICE_H */
