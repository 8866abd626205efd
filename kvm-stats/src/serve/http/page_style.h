/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SERVE_PAGE_STYLE_H
#define SERVE_PAGE_STYLE_H

#define REFRESH_SECONDS	"5"
/* Then the page, which has no script, says so by an animation. */
#define OLD_SECONDS	"15"

#endif /* SERVE_PAGE_STYLE_H */
