export ZSH=$HOME/.oh-my-zsh
ZSH_THEME=robbyrussell
plugins=(git)
[ -r $ZSH/oh-my-zsh.sh ] && source $ZSH/oh-my-zsh.sh

export EDITOR=nvim VISUAL=nvim
HISTSIZE=1000 SAVEHIST=1000 HISTFILE=~/.zsh_history
setopt histignorealldups sharehistory
alias gs='git status'
